# Tests that start ranks themselves: as threads of one process, and with mpirun where MPI was found.
function(plait_fault wire case)
  add_test(NAME Faults.${wire}_${case}
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/faults_test.py ${wire} ${case} $<TARGET_FILE:wire_faults> $<TARGET_FILE:plait>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(Faults.${wire}_${case} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endfunction()

# plait_launched(NAME RANKS COMMAND...): the command on so many ranks of mpirun.
function(plait_launched name ranks)
  add_test(NAME Mpi.${name}_on_${ranks}_ranks COMMAND ${PLAIT_MPIRUN} -n ${ranks} ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(Mpi.${name}_on_${ranks}_ranks PROPERTIES TIMEOUT 300 PROCESSORS 2
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
endfunction()

foreach(case throws late more killed memory)
  plait_fault(local ${case})
endforeach()

find_program(PLAIT_MPIRUN mpirun)
if(MPI_C_FOUND AND PLAIT_MPIRUN)
  foreach(case throws late more killed stopped memory killed_in_training nan_in_training)
    plait_fault(mpi ${case})
  endforeach()
  foreach(ranks 1 2 4 8)
    plait_launched(collectives ${ranks} $<TARGET_FILE:wire_test> "--gtest_filter=AllReduce*:AllGather*:ReduceScatter*:AllToAll*:UnevenRows*:Broadcast*:World*:Collectives*:Alone*:MpiMemory*")
  endforeach()
  plait_launched(lanes_and_uneven_ranks 4 $<TARGET_FILE:across_test> "--gtest_filter=Lanes.give*:UnevenRanks*")
  plait_launched(bench_of_a_machine 4 $<TARGET_FILE:bench_test> "--gtest_filter=BenchMachine*")
  plait_launched(bench_of_a_grid 4 $<TARGET_FILE:bench_test> "--gtest_filter=BenchGrid*")
  add_test(NAME Mpi.files_are_written_by_the_first_rank
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/launched_files_test.py $<TARGET_FILE:plait>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(Mpi.files_are_written_by_the_first_rank PROPERTIES TIMEOUT 300 PROCESSORS 2)
  plait_launched(verify 4 $<TARGET_FILE:plait> verify configs/tiny.toml mesh.tp=2 mesh.ep=2 data.path=README.md)
endif()
