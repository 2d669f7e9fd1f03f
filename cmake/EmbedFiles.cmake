# cmake -DFOLDER=… -DOUT=… -P EmbedFiles.cmake: the files of a folder as C++ arrays.
file(GLOB files LIST_DIRECTORIES false ${FOLDER}/*)
set(arrays "")
set(cases "")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  get_filename_component(ending ${file} LAST_EXT)
  string(MAKE_C_IDENTIFIER ${name} id)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  set(type "application/octet-stream")
  if(ending STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(ending STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(ending STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  elseif(ending STREQUAL ".json")
    set(type "application/json")
  elseif(ending STREQUAL ".svg")
    set(type "image/svg+xml")
  endif()
  string(APPEND arrays "constexpr unsigned char k_${id}[] = {${bytes}0};\n")
  string(APPEND cases
    "  if (name == \"${name}\") return Asset{text(k_${id}, sizeof(k_${id}) - 1), \"${type}\"};\n")
endforeach()
file(WRITE ${OUT} "// Made from the files in web/.
#include \"serve/assets.h\"

namespace contcore {
namespace {
${arrays}
std::string_view text(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace
std::optional<Asset> asset(std::string_view name) {
${cases}  return std::nullopt;
}
}  // namespace contcore
")
