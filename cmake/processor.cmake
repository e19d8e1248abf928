# Every program first checks that its processor has what it was built for, in code that runs on any x86-64: the linker is
# told its name, or it would leave it in the library.
set_source_files_properties(src/base/processor_check.cpp PROPERTIES COMPILE_OPTIONS "-march=x86-64;-mtune=generic"
                            SKIP_PRECOMPILE_HEADERS ON)
target_link_options(plait_base INTERFACE LINKER:--undefined=plait_check_processor)
add_test(NAME Processor.that_a_program_was_not_built_for_is_refused_in_one_line_before_it_begins
         COMMAND sh -c "said=$($0 2>&1) && exit 1; test $? = 2 && echo $said && expr match \"$said\" 'base_foreign was built for .*build it here'"
                 $<TARGET_FILE:base_foreign>)
