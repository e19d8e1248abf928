# `cmake --install build/release --prefix DIR`: the program, the rooms as libraries with their headers, and a package that
# find_package(plait) finds. What an installed library cannot be mixed with is noted here and compared by plaitConfig.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY PLAIT_ROOMS)
list(REMOVE_ITEM rooms plait_apps)
add_library(plait_plait INTERFACE)
target_link_libraries(plait_plait INTERFACE ${rooms})
# Inline functions of headers are compiled alike on both sides.
target_compile_options(plait_plait INTERFACE -march=${PLAIT_ARCH} $<$<BOOL:${PLAIT_SHORT_COPIES}>:-mmove-max=128 -mstore-max=128>)
set_target_properties(plait_plait PROPERTIES EXPORT_NAME plait)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/plait)
install(TARGETS plait_plait ${rooms} EXPORT plaitTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/plait)
set_target_properties(plait PROPERTIES INSTALL_RPATH "${torch_dir}/lib;${torch_dir}/../torch.libs")  # LibTorch stays where it is
install(TARGETS plait RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plait
        FILES_MATCHING PATTERN "*.h" PATTERN testing EXCLUDE PATTERN apps EXCLUDE)
install(EXPORT plaitTargets NAMESPACE plait:: DESTINATION ${package})

plait_torch_version(PLAIT_TORCH_VERSION ${torch_dir})
string(REGEX MATCH "^[0-9]+" PLAIT_COMPILER_MAJOR ${CMAKE_CXX_COMPILER_VERSION})
configure_package_config_file(cmake/plaitConfig.cmake.in ${CMAKE_BINARY_DIR}/plaitConfig.cmake INSTALL_DESTINATION ${package}
                              PATH_VARS CMAKE_INSTALL_BINDIR)
install(FILES ${CMAKE_BINARY_DIR}/plaitConfig.cmake cmake/torch.cmake cmake/torch_version.cmake DESTINATION ${package})

add_test(NAME Installed.serves_a_project_of_its_own_and_refuses_what_it_was_not_built_with
         COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/install_test.py ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
set_tests_properties(Installed.serves_a_project_of_its_own_and_refuses_what_it_was_not_built_with PROPERTIES TIMEOUT 600)
