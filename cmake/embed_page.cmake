# cmake -DFROM=FOLDER -DTO=FILE.cc -P embed_page.cmake: the files of the web page as
# sluice::serve::PageFiles().
file(GLOB_RECURSE paths RELATIVE ${FROM} ${FROM}/*.html ${FROM}/*.css ${FROM}/*.js ${FROM}/*.svg)
list(SORT paths)
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(n 0)
foreach(path ${paths})
  string(REGEX MATCH "[a-z]+$" extension ${path})
  file(READ ${FROM}/${path} text HEX)
  file(SHA256 ${FROM}/${path} digest)
  string(SUBSTRING ${digest} 0 32 tag)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${text}")
  string(APPEND arrays "constexpr unsigned char kFile${n}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${path}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\",\n"
                     "     {reinterpret_cast<const char*>(kFile${n}), sizeof(kFile${n})}},\n")
  math(EXPR n "${n} + 1")
endforeach()

file(WRITE ${TO} "#include \"serve/page.h\"
namespace sluice::serve {
namespace {
${arrays}
const PageFile kFiles[] = {
${rows}};
}  // namespace
std::span<const PageFile> PageFiles() { return kFiles; }
}  // namespace sluice::serve
")
