# Run by plait_assets: writes SOURCE, which has the files of FOLDER as text.
file(GLOB assets ${FOLDER}/*)
set(entries "")
foreach(asset ${assets})
  get_filename_component(name ${asset} NAME)
  file(READ ${asset} text)
  string(FIND "${text}" ")asset\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${asset}: holds )asset\", which would end its text in C++; write it otherwise")
  endif()
  string(APPEND entries "    {\"${name}\", R\"asset(${text})asset\"},\n")
endforeach()
file(WRITE ${SOURCE} "#include \"${ROOM}/assets.h\"

#include \"base/errors.h\"

namespace plait {
namespace {

struct Asset {
  std::string_view name, text;
};
constexpr Asset kAssets[] = {
${entries}};

}  // namespace

std::string_view asset(std::string_view name) {
  for (const Asset& asset : kAssets)
    if (asset.name == name) return asset.text;
  throw ContractError(fmt::format(\"there is no asset {}\", name));
}

}  // namespace plait
")
