#include "cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <istream>
#include <iterator>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <utility>

#include "cli/generate.h"
#include "cli/options.h"
#include "diag/diagnostic.h"
#include "output/output.h"
#include "output/read_file.h"

namespace spidergen::cli {
namespace {

enum ExitStatus : int { exit_done = 0, exit_error = 1, exit_usage = 2, exit_internal = 3 };

/// A spec that generated without errors.
struct Generated {
  std::string spec;  ///< path as written
  std::vector<output::OutputFile> files;
  std::string explanation;
};

std::optional<spec::SpecSource> read_source(const std::string& path, std::istream& in, std::ostream& err) {
  if (path == "-") {
    std::string text(spec::longest_text + 1, '\0');  // one more than what is too long
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return spec::SpecSource{path, std::move(text)};
  }
  output::FileContents contents = output::read_file(path, spec::longest_text + 1);
  if (contents.error != 0) {
    err << fmt::format("{}: error: cannot be read: {}\n", diag::printable(path),
                       output::system_reason(contents.error));
    return std::nullopt;
  }
  return spec::SpecSource{path, std::move(contents.text)};
}

std::optional<Generated> generate_one(const std::string& path, const Options& options, std::istream& in,
                                      std::ostream& err) {
  const std::optional<spec::SpecSource> source = read_source(path, in, err);
  if (!source) {
    return std::nullopt;
  }
  GenerateResult result = generate(*source, options.overrides, options.architectures);
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) {
    err << diag::to_string(diagnostic) << '\n';
  }
  if (result.diagnostics.full()) {
    err << fmt::format("{}: error: more errors may follow; correct the first {}\n", diag::printable(path),
                       diag::most_errors);
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

/// All specs, or nothing where one has an error; every spec is read, so that all errors are told at once.
std::optional<std::vector<Generated>> generate_all(const Options& options, std::istream& in,
                                                   std::ostream& err) {
  std::vector<Generated> all;
  for (const std::string& path : options.specs) {
    if (std::optional<Generated> generated = generate_one(path, options, in, err)) {
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

/// The files of the specs, by their paths alone: a spec's stencil has the name of its file.
std::vector<std::string> expected_outputs(const Options& options) {
  std::vector<std::string> paths;
  for (const std::string& spec : options.specs) {
    if (spec != "-") {
      const std::filesystem::path stem =
          std::filesystem::path(options.output) / std::filesystem::path(spec).stem();
      paths.push_back(stem.string() + ".cu");
      paths.push_back(stem.string() + ".h");
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

int check(std::span<const Generated> all, const Options& options, std::ostream& err) {
  bool stale = false;
  for (const Generated& generated : all) {
    for (const auto& [path, reason] : output::check_files(options.output, generated.files)) {
      err << fmt::format("{}: error: {}; mend it with: {}\n", diag::printable(path), reason,
                         diag::printable(command_that_writes(generated.spec, options)));
      stale = true;
    }
  }
  return stale ? exit_error : exit_done;
}

int write(std::span<const Generated> all, const Options& options, std::ostream& err) {
  std::vector<output::OutputFile> files;
  for (const Generated& generated : all) {
    files.insert(files.end(), generated.files.begin(), generated.files.end());
  }
  if (const std::optional<output::Problem> problem = output::write_files(options.output, files)) {
    err << fmt::format("{}: error: {}\n", diag::printable(problem->path), problem->reason);
    return exit_error;
  }
  return exit_done;
}

int list_outputs(const Options& options, std::ostream& out) {
  if (std::find(options.specs.begin(), options.specs.end(), "-") != options.specs.end()) {
    throw UsageError("--list-outputs goes by the names of files, and standard input ('-') has none");
  }
  for (const std::string& path : expected_outputs(options)) {
    out << path << '\n';
  }
  return exit_done;
}

int run_checked(const Options& options, std::istream& in, std::ostream& out, std::ostream& err) {
  if (options.help) {
    out << help_text();
    return exit_done;
  }
  if (options.version) {
    out << fmt::format("spider-gen version {}\n", version());
    return exit_done;
  }
  if (options.list_outputs) {
    return list_outputs(options, out);
  }
  (void)expected_outputs(options);
  const std::optional<std::vector<Generated>> all = generate_all(options, in, err);
  if (!all) {
    return exit_error;
  }
  std::vector<std::string> names;
  for (const Generated& generated : *all) {
    for (const output::OutputFile& file : generated.files) {
      names.push_back(file.name);
    }
  }
  require_different(names);
  if (options.check) {
    return check(*all, options, err);
  }
  const int status = options.write ? write(*all, options, err) : exit_done;
  if (options.explain && status == exit_done) {
    explain(*all, options.explain_format, out);
  }
  return status;
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err) {
  try {
    const int status = run_checked(parse_options(arguments), in, out, err);
    if (!out.flush()) {
      err << "spider-gen: error: standard output cannot be written\n";
      return exit_error;
    }
    return status;
  } catch (const UsageError& error) {
    err << "spider-gen: error: " << diag::printable(error.what()) << "; spider-gen --help shows the usage\n";
    return exit_usage;
  } catch (const std::exception& error) {
    err << "spider-gen: internal error: " << error.what()
        << "\nThis is a mistake in spider-gen, not in your spec; please report it together with the spec.\n";
    return exit_internal;
  }
}

}  // namespace spidergen::cli
