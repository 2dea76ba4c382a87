#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace spidergen::cli {

/// Runs the program `spider-gen` on the arguments after its name: reads the specs (`in` for "-"), writes the
/// files. `out` gets only requested output, `err` the diagnostics, one per line. Returns the exit status: 0
/// done, 1 an error in a spec or in the output, 2 wrong usage, 3 an internal error. Where one of several
/// specs has an error, no file is written. `coloured` colours places and kinds of messages for a terminal.
[[nodiscard]] int run(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out,
                      std::ostream& err, bool coloured = false);

}  // namespace spidergen::cli
