/// Any bytes as a spec, all the way to the generated files: errors or two files of plain text, and no
/// exception, which would be an internal error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/generate.h"
#include "expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spidergen;
  const cli::GenerateResult result =
      cli::generate({"-", std::string(data, data + size)}, {}, {}, {"sm_80", "sm_90"});
  if (result.diagnostics.has_errors()) {
    fuzz::expect(result.files.empty(), "where there are errors there are no files");
    return 0;
  }
  fuzz::expect(result.files.size() == 2, "a kernel is two files");
  for (const emit::EmittedFile& file : result.files) {
    fuzz::expect(file.text.find_first_of(std::string("\0\r\t\x1b\x7f", 5)) == std::string::npos,
                 "generated files are plain text");
  }
  return 0;
}
