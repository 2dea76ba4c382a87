#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cctype>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

#include "spec/names.h"

namespace spidergen::cli {
namespace {

namespace po = boost::program_options;

using Strings = std::vector<std::string>;

/// The architectures that have mma.sp, by nvcc's names: `a` restricts code to that one, `f` to its family.
constexpr std::array<std::string_view, 22> known_architectures{
    "sm_80",   "sm_86",   "sm_87",   "sm_88",   "sm_89",   "sm_90",  "sm_90a",  "sm_100",
    "sm_100a", "sm_100f", "sm_103",  "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f",
    "sm_120",  "sm_120a", "sm_120f", "sm_121",  "sm_121a", "sm_121f"};
constexpr std::string_view default_architecture = "sm_80";

po::options_description visible_options() {
  po::options_description all("Options");
  // clang-format off
  all.add_options()
      ("output,o", po::value<std::string>()->value_name("DIR"), "folder for the files; created where it is missing")
      ("define,D", po::value<Strings>()->value_name("NAME=VALUE"),
       "override a parameter of the specs; may be repeated")
      ("name", po::value<std::string>()->value_name("NAME"),
       "call the kernel of the one spec so, and its files: with -D, several kernels of one spec")
      ("adjoint", "write the spec of the adjoint, NAME_adjoint.yaml, in the place of a kernel; to standard output "
       "without -o")
      ("split", "with --adjoint: write a stage as several where these take less time; fields NAME_bar_term, which the "
       "spec has then, are room for them")
      ("axes", po::value<std::string>()->value_name("ORDER"),
       "the axes as arrays store them, slowest first, such as xy where y is contiguous; default: zyx, yx or x")
      ("arch", po::value<std::string>()->value_name("LIST"),
       "architectures that --explain predicts for, with commas between; default sm_80. Kernels are the same for all")
      ("engine", po::value<std::string>()->value_name("NAME"),
       "what computes: sparse tensor cores, dense ones in two passes, or cuda for CUDA cores; default: the fastest that "
       "takes the spec")
      ("check", "write nothing; fail where the files in DIR are not what would be written")
      ("list-outputs", "write nothing; print the paths of the files that would be written")
      ("explain", "print the plan; without -o nothing is written")
      ("explain-format", po::value<std::string>()->value_name("FORMAT"), "text (default) or json")
      ("new", po::value<std::string>()->value_name("NAME"),
       "write NAME.yaml, a commented spec to start from, into DIR or here; never over a file that is there")
      ("system", "with --new: the spec of a system of equations")
      ("version", "print the version")
      ("help", "print this text");
  // clang-format on
  return all;
}

/// " (did you mean '--output'?)" for an abbreviation or a misspelling.
std::string option_hint(const std::string& unknown) {
  const std::string begin = "--" + unknown.substr(unknown.find_first_not_of('-'));
  const po::options_description all = visible_options();
  Strings names;
  Strings longer;
  for (const auto& option : all.options()) {
    names.push_back("--" + option->long_name());
    if (names.back().starts_with(begin)) longer.push_back(names.back());
  }
  const auto shortest =
      std::min_element(longer.begin(), longer.end(),
                       [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  if (shortest == longer.end()) return spec::did_you_mean(begin, names);
  const bool one_meaning = std::all_of(longer.begin(), longer.end(),
                                       [&](const std::string& name) { return name.starts_with(*shortest); });
  return one_meaning ? fmt::format(" (did you mean '{}'?)", *shortest) : std::string();
}

po::variables_map parse(const Strings& arguments) {
  po::options_description all = visible_options();
  all.add_options()("spec", po::value<Strings>());
  po::positional_options_description positions;
  positions.add("spec", -1);
  // A guessed abbreviation could change its meaning with a new option.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positions).style(style).run(),
              values);
  } catch (const po::unknown_option& error) {
    throw UsageError(error.what() + option_hint(error.get_option_name()));
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  return values;
}

std::vector<spec::ParameterOverride> parse_overrides(const Strings& definitions) {
  std::vector<spec::ParameterOverride> overrides;
  std::set<std::string> names;
  for (const std::string& definition : definitions) {
    const std::size_t equals = definition.find('=');
    const std::string name = definition.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == definition.size() || !spec::is_identifier(name)) {
      throw UsageError(fmt::format(
          "-D wants NAME=VALUE with an identifier for NAME and no blank before '=', not '{}'", definition));
    }
    if (!names.insert(name).second) {
      throw UsageError(fmt::format("-D {} is given twice", name));
    }
    overrides.push_back({name, definition.substr(equals + 1)});
  }
  return overrides;
}

bool is_architecture(std::string_view name) {
  return std::find(known_architectures.begin(), known_architectures.end(), name) != known_architectures.end();
}

/// For '90', 'sm90' or 'compute_90'; nothing for a list with wrong separators.
std::string architecture_hint(const std::string& item) {
  const std::size_t begin = std::min(item.find_first_of("0123456789"), item.size());
  const std::size_t end = std::min(item.find_first_not_of("0123456789", begin), item.size());
  const std::string name = "sm_" + item.substr(begin, end - begin);
  const bool more = item.find_first_of("0123456789", end) != std::string::npos;
  return is_architecture(name) && !more ? fmt::format(" (did you mean '{}'?)", name) : std::string();
}

Strings parse_architectures(const std::string& list) {
  std::set<std::string, std::less<>> asked;
  std::istringstream items(list + ",");
  for (std::string item; std::getline(items, item, ',');) {
    if (!is_architecture(item)) {
      throw UsageError(
          fmt::format("--arch wants architectures with sparse tensor cores, with commas between, not '{}'{}; "
                      "known are {}",
                      item, architecture_hint(item), fmt::join(known_architectures, ", ")));
    }
    asked.insert(item);
  }
  Strings architectures;
  for (const std::string_view name : known_architectures) {
    if (asked.contains(name)) {
      architectures.emplace_back(name);
    }
  }
  return architectures;
}

plan::Engine parse_engine(const std::string& name) {
  const std::optional<plan::Engine> engine = plan::engine_named(name);
  if (!engine) throw UsageError(fmt::format("--engine wants sparse, dense or cuda, not '{}'", name));
  return *engine;
}

ExplainFormat parse_explain_format(const std::string& name) {
  if (name != "text" && name != "json") {
    throw UsageError(fmt::format("--explain-format wants text or json, not '{}'", name));
  }
  return name == "json" ? ExplainFormat::json : ExplainFormat::text;
}

void check_new(const Options& options, const po::variables_map& values) {
  const std::string objection = spec::objection_to_stencil_name(options.new_stencil);
  if (!objection.empty()) throw UsageError("--new: " + objection);
  for (const auto& [name, value] : values) {
    if (name != "new" && name != "system" && name != "output") {
      throw UsageError(fmt::format("--new goes with --system and -o DIR and nothing else, not with {}",
                                   name == "spec" ? "a spec" : "--" + name));
    }
  }
}

void check_name(const Options& options) {
  const std::string objection = spec::objection_to_stencil_name(options.name);
  if (!objection.empty()) throw UsageError("--name: " + objection);
  if (options.specs.size() > 1) {
    throw UsageError(fmt::format("--name {} is for one spec, and {} are given; call spider-gen for each",
                                 options.name, options.specs.size()));
  }
}

void check_adjoint(const Options& options, const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    if (name != "adjoint" && name != "split" && name != "spec" && name != "output" && name != "define" &&
        name != "check") {
      throw UsageError(
          fmt::format("--adjoint goes with specs, --split, -D, -o DIR and --check, not with --{}", name));
    }
  }
  if (options.check && !options.write) throw UsageError("--check of an adjoint needs its folder: -o DIR");
  if (!options.write && options.specs.size() > 1) {
    throw UsageError(
        fmt::format("{} adjoints do not go to standard output; name a folder: -o DIR", options.specs.size()));
  }
}

void check_specs(const Strings& specs) {
  if (specs.empty()) throw UsageError("no spec is given");
  for (const std::string& name : specs) {
    if (name.empty()) throw UsageError("the name of a spec is empty");
    if (is_architecture(name)) {
      throw UsageError(
          fmt::format("'{}' is no spec; of several architectures '--arch' wants commas between", name));
    }
  }
}

void check_together(const Options& options, const po::variables_map& values) {
  if (options.split && !options.adjoint) throw UsageError("--split goes with --adjoint");
  check_specs(options.specs);
  if (std::count(options.specs.begin(), options.specs.end(), "-") > 1) {
    throw UsageError("standard input ('-') can be read only once");
  }
  if (options.check && options.list_outputs) {
    throw UsageError("--check and --list-outputs exclude each other");
  }
  if (options.explain && (options.check || options.list_outputs)) {
    throw UsageError(
        fmt::format("--explain and --{} exclude each other", options.check ? "check" : "list-outputs"));
  }
  if (values.count("explain-format") != 0 && !options.explain) {
    throw UsageError("--explain-format is of use only with --explain");
  }
  if (!options.write && !options.explain && !options.list_outputs && !options.adjoint) {
    throw UsageError("the folder for the files is missing: -o DIR");
  }
}

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+=./,:@%^").find(c) != std::string_view::npos;
  });
  if (plain) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

}  // namespace

Options parse_options(const Strings& arguments) {
  const po::variables_map values = parse(arguments);
  Options options;
  options.help = values.count("help") != 0;
  options.version = values.count("version") != 0;
  if (options.help || options.version) {
    return options;
  }
  const auto text = [&](const char* name, const std::string& otherwise) {
    return values.count(name) != 0 ? values[name].as<std::string>() : otherwise;
  };
  const auto texts = [&](const char* name) {
    return values.count(name) != 0 ? values[name].as<Strings>() : Strings{};
  };
  options.specs = texts("spec");
  options.output = text("output", ".");
  options.write = values.count("output") != 0;
  if (options.output.empty()) throw UsageError("--output names no folder; use . for the current one");
  if (values.count("new") != 0) {
    options.new_stencil = text("new", "");
    options.new_system = values.count("system") != 0;
    check_new(options, values);
    return options;
  }
  if (values.count("system") != 0)
    throw UsageError("--system goes with --new NAME; a spec with 'stages' is a system without it");
  options.name = text("name", "");
  options.overrides = parse_overrides(texts("define"));
  options.axes = text("axes", "");
  if (values.count("axes") != 0 && options.axes.empty())
    throw UsageError("--axes names no axis; the slowest in memory comes first, such as xy");
  options.architectures = parse_architectures(text("arch", std::string(default_architecture)));
  if (values.count("engine") != 0) options.engine = parse_engine(text("engine", ""));
  options.adjoint = values.count("adjoint") != 0;
  options.split = values.count("split") != 0;
  options.check = values.count("check") != 0;
  options.list_outputs = values.count("list-outputs") != 0;
  options.explain = values.count("explain") != 0;
  options.explain_format = parse_explain_format(text("explain-format", "text"));
  check_together(options, values);
  if (options.adjoint) check_adjoint(options, values);
  if (values.count("name") != 0) check_name(options);
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text << "Usage: spider-gen SPEC... -o DIR [options]\n"
          "       spider-gen --adjoint SPEC... [--split] [-o DIR] [-D NAME=VALUE] [--check]\n"
          "       spider-gen --new NAME [--system] [-o DIR]\n\n"
          "Writes DIR/<stencil>.cu and DIR/<stencil>.h for every spec, a stencil in YAML; '-' reads one from "
          "standard\n"
          "input.\n\n"
          "Example, from nothing to a kernel:\n"
          "  spider-gen --new heat                    writes heat.yaml: read it, change it\n"
          "  spider-gen heat.yaml --explain           shows what its kernel will do\n"
          "  spider-gen heat.yaml -o kernels          writes kernels/heat.cu, for nvcc, and kernels/heat.h,\n"
          "                                           for your program: spider_apply(heat_kernel(), ...)\n"
          "  spider-gen heat.yaml -o kernels --check  tells, later, whether the two are still up to date\n\n"
       << visible_options()
       << "\nExit status: 0 done, 1 an error in a spec or in the output, 2 wrong usage, 3 an internal "
          "error.\n";
  return text.str();
}

std::string command_that_writes(const std::string& spec, const Options& options) {
  std::string command = fmt::format("spider-gen {}{}{} -o {}", options.adjoint ? "--adjoint " : "",
                                    options.split ? "--split " : "", quoted(spec), quoted(options.output));
  if (!options.name.empty()) command += " --name " + options.name;
  for (const auto& [name, expression] : options.overrides) {
    command += " -D " + quoted(fmt::format("{}={}", name, expression));
  }
  if (!options.axes.empty()) command += " --axes " + quoted(options.axes);
  if (options.architectures != Strings{std::string(default_architecture)}) {
    command += fmt::format(" --arch {}", fmt::join(options.architectures, ","));
  }
  if (options.engine) command += fmt::format(" --engine {}", plan::engine_name(*options.engine));
  return command;
}

}  // namespace spidergen::cli
