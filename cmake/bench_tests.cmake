# Benches with configs that were not written for them: nothing is refused, and nothing is said of what nobody typed. Each
# in a process of its own, as one of them forks. The last words make them small.
function(plait_bench_test name)
  add_test(NAME Benches.${name}_takes_a_config_that_was_not_written_for_it
           COMMAND sh -c "said=$(\"$@\" 2>&1 >/dev/null) && test -z \"$said\" || { echo \"$said\"; exit 1; }" sh
                   $<TARGET_FILE:plait> bench ${name} ${ARGN} train.seq_length=16 train.batch_size=4
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

plait_bench_test(memory --config configs/tiny.toml --steps 1)
plait_bench_test(overlap --config configs/shakespeare.toml --repeats 1 --chunks 2)
