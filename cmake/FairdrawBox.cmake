# A box is a top-level folder: one library target, and a private way to its headers.
#
# fairdraw_box(NAME SOURCES ... USES box...) makes library fairdraw_NAME. Headers are included as
# "NAME/header.h"; only a target that links the box finds them, because the include path is a
# folder of the build tree that holds nothing but a link to this box.

add_library(fairdraw_options INTERFACE)
target_compile_options(fairdraw_options INTERFACE
  # No contraction: every fused multiply-add of the specification is spelled out, no other exists.
  -ffp-contract=off
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wvla -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough)
if(FAIRDRAW_WERROR)
  target_compile_options(fairdraw_options INTERFACE -Werror)
endif()
if(FAIRDRAW_SANITIZE)
  target_compile_options(fairdraw_options INTERFACE
    -fsanitize=${FAIRDRAW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(fairdraw_options INTERFACE -fsanitize=${FAIRDRAW_SANITIZE})
endif()

function(fairdraw_box name)
  cmake_parse_arguments(BOX "" "" "SOURCES;USES" ${ARGN})
  add_library(fairdraw_${name} STATIC ${BOX_SOURCES})
  set(path ${PROJECT_BINARY_DIR}/boxes/${name})
  file(MAKE_DIRECTORY ${path})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${path}/${name} SYMBOLIC)
  target_include_directories(fairdraw_${name} PUBLIC ${path})
  target_link_libraries(fairdraw_${name} PRIVATE $<BUILD_INTERFACE:fairdraw_options>)
  foreach(used IN LISTS BOX_USES)
    target_link_libraries(fairdraw_${name} PUBLIC ${used})
  endforeach()
endfunction()

# fairdraw_test(NAME SOURCES ... LINKS ... LABELS ...): a GoogleTest binary, one ctest entry a test.
function(fairdraw_test name)
  if(NOT FAIRDRAW_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE fairdraw_options ${TEST_LINKS} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} PROPERTIES LABELS "${TEST_LABELS}" DISCOVERY_TIMEOUT 60)
endfunction()
