# Builds an example plugin from only the installed headers, like its author, and judges it by the
# smoke suite. Needs: example (c, marks, operations, processing or cuda), build, source, scratch (folders),
# c_compiler, cxx_compiler, fairdraw; cuda: nvcc, and cuda_enabled where fairdraw has its CUDA part.
# Prints "skipped: REASON" if something needed is missing.

file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${scratch} RESULT_VARIABLE status
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_output pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected ${pattern} in\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${build} --component plugin --prefix ${scratch}/prefix)
file(GLOB_RECURSE installed RELATIVE ${scratch}/prefix ${scratch}/prefix/*)
list(SORT installed)
if(NOT installed STREQUAL "include/fairdraw/batch.h;include/fairdraw/drafts.h;include/fairdraw/operation.h;include/fairdraw/plugin.h;include/fairdraw/plugin_abi.h;include/fairdraw/sequence.h")
  message(FATAL_ERROR "the component holds ${installed}")
endif()
# An author has only these six headers, and no C++ names.
include(${source}/../../cmake/installed_names.cmake)
expect_installed_names(${scratch}/prefix/include "[a-z_]+::[A-Za-z_]+")
file(COPY ${source}/examples/ DESTINATION ${scratch})  # nothing else of the tree
set(strict -Wall -Wextra -Werror -pedantic -I ${scratch}/prefix/include)

# The header must compile as C11 and as C++.
file(WRITE ${scratch}/header.cpp "#include <fairdraw/plugin.h>\n")
run(${cxx_compiler} -std=c++11 ${strict} -fsyntax-only header.cpp)

set(name greedy_and_categorical)
set(abilities "indices num_samples status per_request_seeds")
if(example STREQUAL filters)
  set(name filters_and_masks)
  set(abilities "lowest_id_ties status support_size mask probs logprobs per_request_seeds")
endif()
if(example STREQUAL processing)
  set(name penalties_and_bans)
  set(abilities "allowed_mask per_request_seeds processing")
endif()
if(example STREQUAL marks)
  set(name marks_by_key)
  set(abilities "status per_request_seeds marks_by_key")
endif()
if(example STREQUAL operations)
  set(name softmax_and_top_k)
  set(abilities "masks_in_place softmax top_k_mask_logits")
endif()
if(NOT example STREQUAL cuda)
  run(${c_compiler} -std=c11 -O2 ${strict} -shared -fPIC ${name}.c -lm -o sampler.so)
else()
  if(NOT nvcc)
    message("skipped: no nvcc")
    return()
  endif()
  run(${nvcc} -std=c++17 -O2 -shared -Xcompiler -fPIC -I ${scratch}/prefix/include
    greedy_and_categorical.cu -o sampler.so)
endif()
run(${fairdraw} list samplers --sampler plugin:./sampler.so)
expect_output("plugin:./sampler.so ${name}.* 1.0, semantics fairdraw")
expect_output("${abilities}")

if(example STREQUAL cuda)
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET RESULT_VARIABLE status)
  if(NOT cuda_enabled)
    message("skipped: built and described, not run: fairdraw is built without its CUDA part")
    return()
  elseif(NOT status EQUAL 0 OR NOT gpus MATCHES "GPU")
    message("skipped: built and described, not run: no GPU")
    return()
  endif()
endif()
set(required "")
if(example STREQUAL filters)
  # The features of the example, which its passed run must cover.
  set(required --require
    distribution,greedy,temperature,top_k,top_p,min_p,seeds,independence,invariance,batch_sizes,bad_rows,masks,probs,allowed_mask,bfloat16
    --max-skipped 70)
endif()
run(${fairdraw} verify --suite smoke --sampler plugin:./sampler.so --seed 7 ${required})
expect_output("fairdraw: [0-9][0-9]+ passed, 0 failed, 0 underpowered, [0-9]+ skipped, 0 error")
expect_output("of the suite applies to this sampler")
if(example STREQUAL c OR example STREQUAL filters)
  run(${fairdraw} fuzz --sampler plugin:./sampler.so --cases 1000 --seed 7 --keep-going)
  expect_output("fuzz: no failure on plugin:./sampler.so: 1000 cases, [0-9][0-9]+ properties judged")
  run(${fairdraw} fuzz --sampler plugin:./sampler.so --cases 20 --seed 7 --keep-going --statistical)
  expect_output("fuzz: no failure on plugin:./sampler.so: 20 cases, [0-9]+ properties judged")
endif()
if(example STREQUAL filters)
  # The changed plugin drops the token that crosses p; verify and fuzz must find that.
  file(READ ${scratch}/${name}.c text)
  string(REPLACE "above < (double)batch->top_p[r] * total"
    "above + row->weights[end] < (double)batch->top_p[r] * total" text "${text}")
  file(WRITE ${scratch}/spoiled.c "${text}")
  run(${c_compiler} -std=c11 -O2 -I ${scratch}/prefix/include -shared -fPIC spoiled.c -lm
    -o spoiled.so)
  foreach(verb "verify;--suite;smoke;--case;mask/*/v1000/top_p_alone" "fuzz;--cases;1000")
    execute_process(COMMAND ${fairdraw} ${verb} --sampler plugin:./spoiled.so --seed 7
      WORKING_DIRECTORY ${scratch} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(NOT status EQUAL 1)
      message(FATAL_ERROR "without the token that crosses p, ${verb} ended with ${status}")
    endif()
  endforeach()
endif()
if(example STREQUAL marks)
  # The changed plugin marks repeated contexts, too, which must be found.
  file(READ ${scratch}/${name}.c text)
  string(REPLACE "return 1;" "return 0;" text "${text}")
  file(WRITE ${scratch}/spoiled.c "${text}")
  run(${c_compiler} -std=c11 -O2 -I ${scratch}/prefix/include -shared -fPIC spoiled.c -lm
    -o spoiled.so)
  execute_process(COMMAND ${fairdraw} verify --suite smoke --sampler plugin:./spoiled.so --seed 7
    --case "marks/*" WORKING_DIRECTORY ${scratch} RESULT_VARIABLE status
    OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "with repeated contexts marked, verify ended with ${status}")
  endif()
endif()
if(example STREQUAL operations)
  # The changed plugin keeps one token too many, which must be found.
  file(READ ${scratch}/${name}.c text)
  string(REPLACE "sorted[k - 1]" "sorted[k]" text "${text}")
  file(WRITE ${scratch}/spoiled.c "${text}")
  run(${c_compiler} -std=c11 -O2 -I ${scratch}/prefix/include -shared -fPIC spoiled.c -lm
    -o spoiled.so)
  execute_process(COMMAND ${fairdraw} verify --suite smoke --sampler plugin:./spoiled.so --seed 7
    --case "top_k_mask_logits/*/v1000/*" WORKING_DIRECTORY ${scratch} RESULT_VARIABLE status
    OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "with a token too many, verify ended with ${status}")
  endif()
endif()
if(example STREQUAL processing)
  # The plugin passes as written, and a missing step is found.
  run(${fairdraw} verify --suite smoke --sampler plugin:./sampler.so --seed 7
    --case "processing/gaussian/v33/*")
  expect_output("fairdraw: 1 passed, 0 failed")
  file(READ ${scratch}/${name}.c text)
  string(REPLACE "x = x - presence;" "" text "${text}")
  file(WRITE ${scratch}/spoiled.c "${text}")
  run(${c_compiler} -std=c11 -O2 -I ${scratch}/prefix/include -shared -fPIC spoiled.c -lm
    -o spoiled.so)
  execute_process(COMMAND ${fairdraw} verify --suite smoke --sampler plugin:./spoiled.so --seed 7
    --case "processing/gaussian/v33/*" WORKING_DIRECTORY ${scratch} RESULT_VARIABLE status
    OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "without the presence penalty, verify ended with ${status}")
  endif()
endif()
