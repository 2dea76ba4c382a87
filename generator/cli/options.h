#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/engine.h"
#include "spec/read_spec.h"

namespace spidergen::cli {

enum class ExplainFormat { text, json };

/// The checked command line, without contradictions.
struct Options {
  std::vector<std::string> specs;  ///< paths as written; "-" is standard input
  std::string output;              ///< folder; "." where none was given and none is needed
  bool write = false;              ///< write to a given folder
  std::string name;  ///< of the stencil, where the command line renames its one spec; else empty
  std::vector<spec::ParameterOverride> overrides;
  std::string axes;                        ///< as spec::SpecSource::axes
  std::vector<std::string> architectures;  ///< such as sm_90a; ascending, without duplicates
  std::optional<plan::Engine> engine;      ///< nothing: chosen by the plan
  bool check = false;
  bool list_outputs = false;
  bool explain = false;
  ExplainFormat explain_format = ExplainFormat::text;
  bool adjoint = false;     ///< write the specs of the adjoints instead of kernels
  bool split = false;       ///< adjoints may split stages
  std::string new_stencil;  ///< of --new; empty otherwise
  bool new_system = false;  ///< is it a system of equations?
  bool version = false;
  bool help = false;
};

/// An error in a command line, in words.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the arguments after the program's name. Throws UsageError.
[[nodiscard]] Options parse_options(const std::vector<std::string>& arguments);

/// The text of --help.
[[nodiscard]] std::string help_text();

/// The command line that writes the files of one spec with these options, for a POSIX shell.
[[nodiscard]] std::string command_that_writes(const std::string& spec, const Options& options);

}  // namespace spidergen::cli
