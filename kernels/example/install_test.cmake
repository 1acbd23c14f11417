# Installs the built tree into a scratch prefix, builds the example against that and runs it.
# Needs: build, example, scratch (folders), generator, compiler, sanitize.

file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# A static library built with sanitizers needs them in the program too.
set(flags "")
if(sanitize)
  set(flags "-fsanitize=${sanitize}")
endif()

run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix)
include(${example}/../../cmake/installed_names.cmake)
expect_installed_names(${scratch}/prefix/include "")
run(${CMAKE_COMMAND} -S ${example} -B ${scratch}/build -G ${generator}
  -D CMAKE_PREFIX_PATH=${scratch}/prefix
  -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  -D CMAKE_CXX_COMPILER=${compiler}
  "-DCMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build ${scratch}/build)
run(${scratch}/build/sample)

# Rows 0 and 1 are greedy and row 3 fails, so they give the same in every step. Row 2 draws 0 or 3,
# the two largest logits, which tie.
set(row "4 \\(ok\\) 4 \\(ok\\) [03] \\(ok\\) -1 \\(nan_input\\)")
if(NOT output MATCHES "^step 0: ${row}\nstep 1: ${row}\nstep 2: ${row}\nstep 3: ${row}\n$")
  message(FATAL_ERROR "the example printed\n${output}")
endif()
set(first_output "${output}")
run(${scratch}/build/sample)
if(NOT output STREQUAL first_output)
  message(FATAL_ERROR "the same seeds and offsets gave\n${first_output}and then\n${output}")
endif()
