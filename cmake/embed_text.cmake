# cmake -DFROM=FILE -DTO=FILE.cc -DNAME=kName -P embed_text.cmake: a text file as the string
# view sluice::app::kName.
file(READ ${FROM} text HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${text}")
file(WRITE ${TO} "#include \"app/cut_tokenizer.h\"
namespace sluice::app {
namespace {
constexpr unsigned char kBytes[] = {${bytes}};
}  // namespace
const std::string_view ${NAME}(reinterpret_cast<const char*>(kBytes), sizeof(kBytes));
}  // namespace sluice::app
")
