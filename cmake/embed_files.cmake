# Embeds files as constants: cmake -DOUTPUT=... -DNAMESPACE=... -DFOLDER=... -DFILES=a.html;b.js -P
# embed_files.cmake writes a source that defines, for each file NAME.EXT of FOLDER, its text as
# `const std::string_view kNameExt`, and for each script also `kNameExtHash`, the base64 of its
# SHA-256 for a page's content security policy. A header of the tree declares them.
cmake_minimum_required(VERSION 3.25)

# Sets RESULT to the base64 of a SHA-256 given in hexadecimal. Of its 64 digits each three give two
# letters, and the last one, padded with two zero bits, gives one.
function(base64_of_sha256 hex result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  foreach(at RANGE 0 60 3)
    string(SUBSTRING "${hex}" ${at} 3 digits)
    math(EXPR high "0x${digits} / 64")
    math(EXPR low "0x${digits} % 64")
    string(SUBSTRING "${alphabet}" ${high} 1 first)
    string(SUBSTRING "${alphabet}" ${low} 1 second)
    string(APPEND text "${first}${second}")
  endforeach()
  string(SUBSTRING "${hex}" 63 1 digit)
  math(EXPR last "0x${digit} * 4")
  string(SUBSTRING "${alphabet}" ${last} 1 letter)
  set(${result} "${text}${letter}=" PARENT_SCOPE)
endfunction()

set(source "// Made by cmake/embed_files.cmake.\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
foreach(file IN LISTS FILES)
  file(READ "${FOLDER}/${file}" text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${file} holds what ends a constant: )embedded\"")
  endif()
  string(REGEX MATCHALL "[a-z0-9]+" words "${file}")
  set(name "k")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(TOUPPER "${first}" first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(APPEND name "${first}${rest}")
  endforeach()
  string(APPEND source "extern const std::string_view ${name};\n"
    "constexpr std::string_view ${name} = R\"embedded(${text})embedded\";\n\n")
  if(file MATCHES "\\.js$")
    file(SHA256 "${FOLDER}/${file}" hex)
    base64_of_sha256("${hex}" hash)
    string(APPEND source "extern const std::string_view ${name}Hash;\n"
      "constexpr std::string_view ${name}Hash = \"sha256-${hash}\";\n\n")
  endif()
endforeach()
string(APPEND source "}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${source}")
