#include "output/read_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

namespace spidergen::output {

FileContents read_file(const std::filesystem::path& path, std::size_t most) {
  const auto close = [](std::FILE* file) { (void)std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) {
    return {{}, errno};
  }
  FileContents contents;
  std::array<char, 65536> buffer{};
  std::size_t count = 0;
  while (contents.text.size() < most &&
         (count = std::fread(buffer.data(), 1, std::min(buffer.size(), most - contents.text.size()),
                             file.get())) > 0) {
    contents.text.append(buffer.data(), count);
  }
  contents.error = std::ferror(file.get()) != 0 ? errno : 0;  // a folder can be opened, but not read
  return contents;
}

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace spidergen::output
