# What `plait --version` says of the program: its version, and the commit that was checked out when it was built, if git
# knows one. Made again when another is checked out.
set(checked_out ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
if(NOT EXISTS ${checked_out})
  set(checked_out)
endif()
set(source ${CMAKE_BINARY_DIR}/commit.cpp)
add_custom_command(
  OUTPUT ${source}
  COMMAND ${CMAKE_COMMAND} -DVERSION=${PROJECT_VERSION} -DFOLDER=${CMAKE_SOURCE_DIR} -DSOURCE=${source} -P ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
  DEPENDS ${checked_out} ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
  COMMENT "The version and the commit as C++"
  VERBATIM)
target_sources(plait_apps PRIVATE ${source})
set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
