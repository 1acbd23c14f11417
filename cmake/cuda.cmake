# The CUDA part of the build: whether to build it, nvcc, and its flags.
#
# FAIRDRAW_CUDA is AUTO (build it if there is an nvcc), GPU (also require a GPU, by cmake/has_gpu),
# ON or OFF. pip passes GPU, and so do the commands of ./fairdraw that do not promise to build
# everything. Sets FAIRDRAW_CUDA_ENABLED; if true, CUDA is an enabled language and
# CUDA::cudart_static can be linked. If only the GPU is missing, sets FAIRDRAW_CUDA_LEFT_OUT to the
# command that adds the CUDA part. ./fairdraw also shows lines that begin with "fairdraw:".

set(kFairdrawOldestNvcc 12.0)  # C++20

set(FAIRDRAW_CUDA_ENABLED FALSE)
set(FAIRDRAW_CUDA_LEFT_OUT "")
set(no_cuda_reason "")
if(NOT FAIRDRAW_CUDA MATCHES "^(AUTO|GPU|ON|OFF)$")
  message(FATAL_ERROR "FAIRDRAW_CUDA is '${FAIRDRAW_CUDA}'; allowed: AUTO, GPU, ON, OFF")
elseif(FAIRDRAW_CUDA STREQUAL OFF)
  set(no_cuda_reason "FAIRDRAW_CUDA is OFF")
elseif(FAIRDRAW_SANITIZE)
  # Device code has its own sanitizers (suites/gpu), and g++'s do not see it.
  set(no_cuda_reason "sanitizers are on")
else()
  find_program(FAIRDRAW_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT FAIRDRAW_NVCC)
    set(no_cuda_reason "no nvcc")
  else()
    execute_process(COMMAND ${FAIRDRAW_NVCC} --version
      OUTPUT_VARIABLE nvcc_version ERROR_VARIABLE nvcc_version)
    if(NOT nvcc_version MATCHES "release ([0-9]+\\.[0-9]+)")
      set(no_cuda_reason "${FAIRDRAW_NVCC} does not run")
    elseif(CMAKE_MATCH_1 VERSION_LESS kFairdrawOldestNvcc)
      set(no_cuda_reason "nvcc ${CMAKE_MATCH_1} is older than ${kFairdrawOldestNvcc}")
    else()
      set(nvcc_version ${CMAKE_MATCH_1})
      if(FAIRDRAW_CUDA STREQUAL GPU)
        execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/has_gpu RESULT_VARIABLE no_gpu)
        if(no_gpu AND DEFINED SKBUILD)
          set(FAIRDRAW_CUDA_LEFT_OUT "pip install . --config-settings=cmake.define.FAIRDRAW_CUDA=ON")
        elseif(no_gpu)
          set(FAIRDRAW_CUDA_LEFT_OUT "./fairdraw build")
        endif()
      endif()
      if(FAIRDRAW_CUDA_LEFT_OUT)
        set(no_cuda_reason
          "nvcc ${nvcc_version}, but no GPU (${FAIRDRAW_CUDA_LEFT_OUT} builds the CUDA part)")
      else()
        set(FAIRDRAW_CUDA_ENABLED TRUE)
        message(STATUS "fairdraw: nvcc ${nvcc_version}: building the CUDA part too")
      endif()
    endif()
  endif()
endif()

if(NOT FAIRDRAW_CUDA_ENABLED)
  if(FAIRDRAW_CUDA STREQUAL ON)
    message(FATAL_ERROR "FAIRDRAW_CUDA is ON, but: ${no_cuda_reason} "
      "(looked for it on PATH, in CUDA_HOME, CUDA_PATH and /usr/local/cuda)")
  endif()
  message(STATUS "fairdraw: ${no_cuda_reason}: building the CPU part")
  return()
endif()

# Machine code for the features of Ampere and Hopper, and PTX that newer GPUs compile themselves.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${FAIRDRAW_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 (Debian 12) does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit REQUIRED)

# Adds the flags of CUDA sources to an interface library.
function(fairdraw_cuda_options target)
  # No g++ warnings of conversions, because g++ sees nvcc's output, in which casts are lost. No
  # contraction on the device either. constexpr functions of the standard library may run there.
  set(flags --fmad=false --expt-relaxed-constexpr
    $<$<CONFIG:RelWithDebInfo>:-lineinfo>
    -Xcompiler=-ffp-contract=off)
  # The library is static, so that every program contains the kernels; compressed they take a fifth.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND flags --compress-mode=size)
  endif()
  if(FAIRDRAW_WERROR)
    list(APPEND flags -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror)
  endif()
  target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${flags}>")
endfunction()
