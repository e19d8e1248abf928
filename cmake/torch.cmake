# LibTorch, with three adjustments: Debian's fmt before the one torch ships (a file that sees both fails to link),
# one slim precompiled header for all rooms that compute, and OpenMP for parallel_for in our own code.
find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
set(PLAIT_FIRST ${CMAKE_BINARY_DIR}/first)
file(MAKE_DIRECTORY ${PLAIT_FIRST})
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(CREATE_LINK ${fmt_include}/fmt ${PLAIT_FIRST}/fmt SYMBOLIC)

function(plait_torch target)
  target_include_directories(${target} BEFORE PUBLIC ${PLAIT_FIRST})
  target_link_libraries(${target} PUBLIC ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)
  target_compile_options(${target} PRIVATE -fopenmp)
endfunction()
