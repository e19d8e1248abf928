# Writes SOURCE: VERSION, and the commit that is checked out in FOLDER; see commit.cmake.
find_program(git git)
set(commit "")
if(git)
  execute_process(COMMAND ${git} -C ${FOLDER} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#include \"apps/version.h\"\n\nnamespace plait {\n\nconst std::string_view kVersion = \"${VERSION}\", kCommit = \"${commit}\";\n\n}  // namespace plait\n")
file(WRITE ${SOURCE} "${text}")
