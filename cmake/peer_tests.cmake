# Comparisons with transformers, by the Python that set-up made.
add_executable(model_numbers ${CMAKE_SOURCE_DIR}/tests/peer/model_numbers.cpp ${CMAKE_SOURCE_DIR}/tests/one_step.cpp)
get_property(rooms GLOBAL PROPERTY PLAIT_ROOMS)
target_link_libraries(model_numbers PRIVATE ${rooms})
target_include_directories(model_numbers PRIVATE ${CMAKE_SOURCE_DIR}/tests)
plait_flags(model_numbers torch)
plait_precompiled(model_numbers torch)

set(PLAIT_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.plait/venv/bin/python3)
function(plait_peer model)
  add_test(NAME Peer.transformers_${model}
           COMMAND ${PLAIT_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/tests/transformers_test.py ${model} $<TARGET_FILE:plait>
                   $<TARGET_FILE:model_numbers>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(Peer.transformers_${model} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

foreach(model llama llama_scaled mistral mixtral qwen2_moe qwen3_moe olmoe)
  plait_peer(${model})
endforeach()
