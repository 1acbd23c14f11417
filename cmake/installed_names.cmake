# Checks that installed headers can be understood without the source tree: headers that they name
# must be installed, too.

# Expects every header of this tree that a file below `include` names, also in comments, to be in
# `include`: names that start with a folder of the tree, with fairdraw/, or without a folder. Other
# names are files of engines and of the system, such as those of the C library and NCCL.
# `forbidden`: a pattern that must not occur.
function(expect_installed_names include forbidden)
  file(GLOB_RECURSE headers RELATIVE ${include} ${include}/*.h)
  set(missing "")
  foreach(header ${headers})
    file(READ ${include}/${header} text)
    string(REGEX MATCHALL "[A-Za-z0-9_./-]+[.](h|cuh|inc)" names "${text}")
    list(REMOVE_DUPLICATES names)
    foreach(name ${names})
      get_filename_component(folder ${header} DIRECTORY)
      if(EXISTS ${include}/${name} OR EXISTS ${include}/${folder}/${name})
        continue()
      endif()
      if(name MATCHES "^(kernels|harness|reference|reports|suites|python|fairdraw)/"
          OR NOT name MATCHES "/")
        if(NOT name MATCHES "^(std[a-z]+|nccl)[.]h$")
          list(APPEND missing "${header} names ${name}")
        endif()
      endif()
    endforeach()
    if(forbidden AND text MATCHES "(${forbidden})")
      list(APPEND missing "${header} says ${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(NOT headers)
    message(FATAL_ERROR "no header below ${include}")
  endif()
  if(missing)
    list(JOIN missing "\n" missing)
    message(FATAL_ERROR "installed headers name what is not installed:\n${missing}")
  endif()
endfunction()
