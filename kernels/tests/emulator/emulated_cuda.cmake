# The CUDA part of a build on the emulator. In a translated tree (translate.py), this file replaces
# cmake/cuda.cmake. CUDA's headers come from the toolkit; its runtime is emulated.
find_program(FAIRDRAW_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT FAIRDRAW_NVCC)
  message(FATAL_ERROR "no nvcc: the emulator needs the headers beside it")
endif()
execute_process(COMMAND ${FAIRDRAW_NVCC} --dryrun -c x.cu
  ERROR_VARIABLE dryrun OUTPUT_VARIABLE dryrun)
if(NOT dryrun MATCHES "TOP=([^\n]+)")
  message(FATAL_ERROR "${FAIRDRAW_NVCC} does not say where its headers are")
endif()
get_filename_component(toolkit "${CMAKE_MATCH_1}" REALPATH)

set(FAIRDRAW_CUDA_ENABLED TRUE)
set(FAIRDRAW_NCCL OFF)  # there is one device, and nothing to connect it with
find_package(Boost 1.74 REQUIRED COMPONENTS context)
set(emulator ${PROJECT_SOURCE_DIR}/kernels/tests/emulator)
add_library(fairdraw_emulator STATIC ${emulator}/fibers.cpp ${emulator}/runtime.cpp)
target_include_directories(fairdraw_emulator PUBLIC ${PROJECT_SOURCE_DIR}/kernels)
target_include_directories(fairdraw_emulator SYSTEM PUBLIC ${toolkit}/include)
# The untranslated build checks warnings. As on the device, no operations are contracted.
target_compile_options(fairdraw_emulator PUBLIC
  -w -ffp-contract=off -include ${emulator}/emulator.h)
target_compile_features(fairdraw_emulator PUBLIC cxx_std_20)
target_link_libraries(fairdraw_emulator PUBLIC Boost::context)
# Imported, like the toolkit's own target, so that installed files do not name it.
add_library(CUDA::cudart_static INTERFACE IMPORTED GLOBAL)
target_link_libraries(CUDA::cudart_static INTERFACE fairdraw_emulator)

function(fairdraw_cuda_options target)
endfunction()
