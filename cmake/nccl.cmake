# Finds NCCL, which only fairdraw/sharded_nccl.h and its test and benchmark need.
#
# FAIRDRAW_NCCL is AUTO (use it if found), ON or OFF. The search covers NCCL_ROOT, NCCL_HOME, the
# system's paths (Debian: libnccl-dev), and Python's packages (PyPI: nvidia-nccl-cu13, with headers
# and library). Sets FAIRDRAW_NCCL_ENABLED; if true, fairdraw::nccl can be linked.

set(FAIRDRAW_NCCL AUTO CACHE STRING "NCCL, for sharded calls on GPUs: AUTO (where it is), ON, OFF")
set_property(CACHE FAIRDRAW_NCCL PROPERTY STRINGS AUTO ON OFF)
set(FAIRDRAW_NCCL_ENABLED FALSE)
if(NOT FAIRDRAW_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FAIRDRAW_NCCL is '${FAIRDRAW_NCCL}'; allowed: AUTO, ON, OFF")
elseif(NOT FAIRDRAW_CUDA_ENABLED)
  set(no_nccl_reason "there is no CUDA part")
elseif(FAIRDRAW_NCCL STREQUAL OFF)
  set(no_nccl_reason "FAIRDRAW_NCCL is OFF")
else()
  set(nccl_in_python "")
  find_program(FAIRDRAW_PYTHON3 python3)
  if(FAIRDRAW_PYTHON3)
    execute_process(COMMAND ${FAIRDRAW_PYTHON3} -c
      "import nvidia.nccl as nccl; print(list(nccl.__path__)[0])"
      OUTPUT_VARIABLE nccl_in_python ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  set(nccl_hints ${NCCL_ROOT} $ENV{NCCL_ROOT} $ENV{NCCL_HOME} ${nccl_in_python})
  find_path(FAIRDRAW_NCCL_INCLUDE nccl.h HINTS ${nccl_hints} PATH_SUFFIXES include)
  find_library(FAIRDRAW_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${nccl_hints}
    PATH_SUFFIXES lib lib64)
  set(no_nccl_reason "no nccl.h or no libnccl (NCCL_ROOT, NCCL_HOME, the system's paths; \
Debian: libnccl-dev, PyPI: nvidia-nccl-cu13)")
  if(FAIRDRAW_NCCL_INCLUDE AND FAIRDRAW_NCCL_LIBRARY)
    set(FAIRDRAW_NCCL_ENABLED TRUE)
  endif()
endif()

if(NOT FAIRDRAW_NCCL_ENABLED)
  if(FAIRDRAW_NCCL STREQUAL ON)
    message(FATAL_ERROR "FAIRDRAW_NCCL is ON, but: ${no_nccl_reason}")
  endif()
  message(STATUS "NCCL: ${no_nccl_reason}: no test and no benchmark of sharded calls with it")
  return()
endif()
message(STATUS "NCCL: ${FAIRDRAW_NCCL_LIBRARY}")
add_library(fairdraw_nccl INTERFACE)
add_library(fairdraw::nccl ALIAS fairdraw_nccl)
target_include_directories(fairdraw_nccl SYSTEM INTERFACE ${FAIRDRAW_NCCL_INCLUDE})
target_link_libraries(fairdraw_nccl INTERFACE ${FAIRDRAW_NCCL_LIBRARY})
