#include "cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <istream>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <utility>

#include "cli/generate.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/starter_spec.h"
#include "diag/diagnostic.h"
#include "output/output.h"
#include "output/read_file.h"

namespace spidergen::cli {
namespace {

enum ExitStatus : int { exit_done = 0, exit_error = 1, exit_usage = 2, exit_internal = 3 };

/// Endings of a spec's files, after its name.
const std::vector<std::string_view> kernel_endings{".cu", ".h"};
const std::vector<std::string_view> adjoint_endings{"_adjoint.yaml"};

/// A spec that generated without errors.
struct Generated {
  std::string spec;  ///< path as written
  std::vector<output::OutputFile> files;
  std::string explanation;
};

std::optional<spec::SpecSource> read_source(const std::string& path, const Options& options, std::istream& in,
                                            const Messages& messages) {
  if (path == "-") {
    std::string text(spec::longest_text + 1, '\0');  // one more than allowed
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return spec::SpecSource{path, std::move(text), options.name, options.axes};
  }
  output::FileContents contents = output::read_file(path, spec::longest_text + 1);
  if (contents.error != 0) {
    messages.error(path, "cannot be read: " + output::system_reason(contents.error));
    return std::nullopt;
  }
  return spec::SpecSource{path, std::move(contents.text), options.name, options.axes};
}

std::optional<Generated> generate_one(const std::string& path, const Options& options, std::istream& in,
                                      const Messages& messages) {
  const std::optional<spec::SpecSource> source = read_source(path, options, in, messages);
  if (!source) {
    return std::nullopt;
  }
  GenerateResult result = options.adjoint
                              ? generate_adjoint(*source, options.overrides, options.split)
                              : generate(*source, options.overrides, {options.engine}, options.architectures);
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) {
    messages.print(diagnostic);
  }
  if (result.diagnostics.full()) {
    messages.error(path, fmt::format("more errors may follow; correct the first {}", diag::most_errors));
  }
  if (result.diagnostics.has_errors()) {
    return std::nullopt;
  }
  Generated generated{path, {}, {}};
  for (emit::EmittedFile& file : result.files) {
    generated.files.push_back({std::move(file.name), std::move(file.text)});
  }
  generated.explanation = options.explain_format == ExplainFormat::json ? std::move(result.explanation_json)
                                                                        : std::move(result.explanation_text);
  return generated;
}

/// All specs, or nothing where one has an error; reads every spec, so that all errors are reported together.
std::optional<std::vector<Generated>> generate_all(const Options& options, std::istream& in,
                                                   const Messages& messages) {
  std::vector<Generated> all;
  for (const std::string& path : options.specs) {
    if (std::optional<Generated> generated = generate_one(path, options, in, messages)) {
      all.push_back(std::move(*generated));
    }
  }
  return all.size() == options.specs.size() ? std::optional(std::move(all)) : std::nullopt;
}

/// Two specs must not write the same file.
void require_different(const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("two specs would both write {}", name));
    }
  }
}

/// The files of the specs, from their paths and --name alone: a spec's stencil has the name of its file.
std::vector<std::string> expected_outputs(const Options& options) {
  std::vector<std::string> paths;
  for (const std::string& spec : options.specs) {
    if (spec != "-" || !options.name.empty()) {
      const std::filesystem::path name =
          options.name.empty() ? std::filesystem::path(spec).stem() : std::filesystem::path(options.name);
      const std::filesystem::path stem = std::filesystem::path(options.output) / name;
      for (const std::string_view ending : options.adjoint ? adjoint_endings : kernel_endings)
        paths.push_back(stem.string() + std::string(ending));
    }
  }
  require_different(paths);
  return paths;
}

void explain(std::span<const Generated> all, ExplainFormat format, std::ostream& out) {
  const bool is_array = format == ExplainFormat::json && all.size() > 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string_view text = all[i].explanation;
    text.remove_suffix(text.ends_with('\n') ? 1 : 0);
    if (is_array) {
      out << (i == 0 ? "[\n" : ",\n") << text << (i + 1 == all.size() ? "\n]" : "");
    } else {
      out << (i > 0 && format == ExplainFormat::text ? "\n" : "") << text;
    }
    out << (!is_array || i + 1 == all.size() ? "\n" : "");
  }
}

int check(std::span<const Generated> all, const Options& options, const Messages& messages) {
  bool stale = false;
  for (const Generated& generated : all) {
    for (const auto& [path, reason] : output::check_files(options.output, generated.files)) {
      messages.error(
          path, fmt::format("{}; mend it with: {}", reason, command_that_writes(generated.spec, options)));
      stale = true;
    }
  }
  return stale ? exit_error : exit_done;
}

int write(std::span<const Generated> all, const Options& options, const Messages& messages) {
  std::vector<output::OutputFile> files;
  for (const Generated& generated : all) {
    files.insert(files.end(), generated.files.begin(), generated.files.end());
  }
  if (const std::optional<output::Problem> problem = output::write_files(options.output, files)) {
    messages.error(problem->path, problem->reason);
    return exit_error;
  }
  return exit_done;
}

int write_starter(const Options& options, const Messages& messages) {
  const std::string text =
      options.new_system ? starter_system(options.new_stencil) : starter_spec(options.new_stencil);
  const output::OutputFile file{options.new_stencil + ".yaml", text};
  if (const std::optional<output::Problem> problem = output::create_file(options.output, file)) {
    messages.error(problem->path, problem->reason);
    return exit_error;
  }
  return exit_done;
}

int list_outputs(const Options& options, std::ostream& out) {
  const bool reads_input = std::find(options.specs.begin(), options.specs.end(), "-") != options.specs.end();
  if (reads_input && options.name.empty()) {
    throw UsageError("--list-outputs goes by the names of files, and standard input ('-') has none");
  }
  for (const std::string& path : expected_outputs(options)) {
    out << path << '\n';
  }
  return exit_done;
}

int run_checked(const Options& options, std::istream& in, std::ostream& out, const Messages& messages) {
  if (options.help) {
    out << help_text();
    return exit_done;
  }
  if (options.version) {
    out << fmt::format("spider-gen version {}\n", version());
    return exit_done;
  }
  if (!options.new_stencil.empty()) {
    return write_starter(options, messages);
  }
  if (options.list_outputs) {
    return list_outputs(options, out);
  }
  const bool only_explains = (options.explain || options.adjoint) && !options.write;
  if (!only_explains) (void)expected_outputs(options);
  const std::optional<std::vector<Generated>> all = generate_all(options, in, messages);
  if (!all) {
    return exit_error;
  }
  std::vector<std::string> names;
  for (const Generated& generated : *all) {
    for (const output::OutputFile& file : generated.files) {
      names.push_back(file.name);
    }
  }
  if (!only_explains) require_different(names);
  if (options.check) {
    return check(*all, options, messages);
  }
  const int status = options.write ? write(*all, options, messages) : exit_done;
  if (options.adjoint && !options.write) out << all->front().files.front().text;
  if (options.explain && status == exit_done) {
    explain(*all, options.explain_format, out);
  }
  return status;
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err,
        bool coloured) {
  const Messages messages(err, coloured);
  std::string mistake;
  try {
    const int status = run_checked(parse_options(arguments), in, out, messages);
    if (!out.flush()) {
      messages.error("spider-gen", "standard output cannot be written");
      return exit_error;
    }
    return status;
  } catch (const UsageError& error) {
    messages.error("spider-gen", std::string(error.what()) + "; spider-gen --help shows the usage");
    return exit_usage;
  } catch (const std::exception& error) {
    mistake = error.what();
  } catch (...) {  // muParser's exceptions are no std::exception
    mistake = "an exception of a library";
  }
  err << "spider-gen: internal error: " << diag::printable(mistake)
      << "\nThis is a mistake in spider-gen, not in your spec; please report it together with the spec.\n";
  return exit_internal;
}

}  // namespace spidergen::cli
