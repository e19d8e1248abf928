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

# Preloaded into a run: what it asks of the disk, one act going wrong.
add_library(disk_faults MODULE ${CMAKE_SOURCE_DIR}/tests/preload/disk_faults.cpp)
target_link_libraries(disk_faults PRIVATE ${CMAKE_DL_LIBS})

# Runs that are told to end, paused, doubled and started again.
function(plait_stop wire case)
  add_test(NAME Stops.${wire}_${case}
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/stops_test.py ${wire} ${case} $<TARGET_FILE:plait> $<TARGET_FILE:disk_faults>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(Stops.${wire}_${case} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

function(plait_kill_points wire)
  add_test(NAME KillPoints.${wire}
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/kill_points_test.py ${wire} $<TARGET_FILE:plait> $<TARGET_FILE:disk_faults>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(KillPoints.${wire} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endfunction()

foreach(case throws late more killed memory)
  plait_fault(local ${case})
endforeach()
foreach(case sigterm sigint sighup sigusr1 closed_pipe in_evaluation in_building in_trials requeue max_time
        save_interval paused doubled closed_stream own_config any_bytes weights
        second_signal crawling_disk hanging_disk full_disk)
  plait_stop(local ${case})
endforeach()
plait_kill_points(local)

find_program(PLAIT_MPIRUN mpirun)
if(MPI_C_FOUND AND PLAIT_MPIRUN)
  foreach(case throws late more killed stopped memory killed_in_training nan_in_training)
    plait_fault(mpi ${case})
  endforeach()
  foreach(case sigterm sigint sighup sigusr1 launcher in_evaluation in_building in_trials requeue max_time save_interval
          paused doubled own_config other_text crawling_disk full_disk)
    plait_stop(mpi ${case})
  endforeach()
  plait_kill_points(mpi)
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
