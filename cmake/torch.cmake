# LibTorch as one target, torch::cpu; also read by projects that use the installed Plait. Not find_package(Torch): that asks for a whole CUDA toolkit whenever the libraries
# were built with CUDA, and links more than we call. Looked for in PLAIT_TORCH_DIR, in the folder that `./plait setup`
# wrote to .plait/torch_dir, and where CMAKE_PREFIX_PATH points.
if(NOT PLAIT_TORCH_DIR)
  set(PLAIT_TORCH_DIR "" CACHE PATH "folder that holds LibTorch's include/ and lib/")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/torch_version.cmake)
set(torch_hint ${PLAIT_TORCH_DIR})
if(NOT torch_hint AND EXISTS ${CMAKE_SOURCE_DIR}/.plait/torch_dir)
  file(STRINGS ${CMAKE_SOURCE_DIR}/.plait/torch_dir torch_hint LIMIT_COUNT 1)
endif()
unset(torch_include CACHE)
find_path(torch_include ATen/core/Tensor.h HINTS ${torch_hint}/include)
if(NOT torch_include)
  message(FATAL_ERROR "LibTorch not found: run ./plait setup, or set PLAIT_TORCH_DIR to a folder with its include/ and lib/")
endif()
get_filename_component(torch_dir ${torch_include} DIRECTORY)
message(STATUS "LibTorch: ${torch_dir}")

add_library(torch::cpu INTERFACE IMPORTED)
target_include_directories(torch::cpu INTERFACE ${torch_include} ${torch_include}/torch/csrc/api/include)
target_link_libraries(torch::cpu INTERFACE ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so Threads::Threads)

# One OpenMP runtime in the process: LibTorch's own where it ships one (two would each keep a pool of threads).
target_compile_options(torch::cpu INTERFACE -fopenmp)
file(GLOB torch_openmp ${torch_dir}/lib/libgomp*.so* ${torch_dir}/../torch.libs/libgomp*.so*)
if(torch_openmp)
  list(GET torch_openmp 0 torch_openmp)
  target_link_libraries(torch::cpu INTERFACE ${torch_openmp})
else()
  target_link_options(torch::cpu INTERFACE -fopenmp)
endif()

# Debian's fmt goes before the one that torch ships: a file that saw both would not link.
set(fmt_first ${CMAKE_BINARY_DIR}/first)
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${fmt_first})
file(CREATE_LINK ${fmt_include}/fmt ${fmt_first}/fmt SYMBOLIC)
target_include_directories(torch::cpu BEFORE INTERFACE ${fmt_first})

function(plait_torch target)
  target_include_directories(${target} BEFORE PUBLIC $<BUILD_INTERFACE:${fmt_first}>)
  target_link_libraries(${target} PUBLIC torch::cpu)
endfunction()
