# Uses ccache where it is installed. It keeps results that came through a precompiled header only when told that macros
# of the command line and time stamps may be trusted.
find_program(PLAIT_CCACHE ccache)
if(PLAIT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${PLAIT_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
