/// The command line alone. The generator behind it is the one below: the linker takes these definitions
/// before it looks into the library. tests/cli.sh runs the real program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/generate.h"
#include "cli/options.h"
#include "cli/run.h"

namespace spidergen::cli {

/// A spec is its stencil's name; the words `wrong`, `warn` and `broken` in it do as they say.
GenerateResult generate(const spec::SpecSource& source, const std::vector<spec::ParameterOverride>& overrides,
                        const std::vector<std::string>& architectures, std::optional<plan::Engine> engine,
                        const plan::Variant& variant) {
  const auto has = [&](const char* word) { return source.text.find(word) != std::string::npos; };
  GenerateResult result;
  if (has("broken")) throw diag::InternalError("window 3 lost a tap");
  if (has("warn")) result.diagnostics.warning({source.path, 2, 5}, "weights are rounded");
  if (has("wrong")) {
    result.diagnostics.error({source.path, 1, 1}, "no such stencil");
    return result;
  }
  const std::string name = source.text.substr(0, source.text.find_first_of(" \n"));
  std::string text = "// spider-gen version " + version() + "\n" + name + "\n";
  for (const auto& [parameter, expression] : overrides) text += parameter + "=" + expression + "\n";
  if (engine) text += "engine " + std::string(plan::engine_name(*engine)) + "\n";
  if (variant != plan::Variant{}) text += "variant" + plan::variant_options(variant) + "\n";
  result.files = {{name + ".h", "header " + text}, {name + ".cu", "source " + text}};
  result.explanation_text =
      "plan of " + name + (architectures.size() == 1 ? "" : " for " + architectures.back()) + "\n";
  result.explanation_json = "{\"stencil\": \"" + name + "\"}\n";
  return result;
}

std::string version() {
  return "1.2.3";
}

namespace {

namespace fs = std::filesystem;

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    std::string pattern = (fs::temp_directory_path() / "spider-cli-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    output_ = (folder_ / "out").string();
  }
  ~CommandLine() override { fs::remove_all(folder_); }

  /// A spec in the test's folder; its path.
  std::string spec(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  int call(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    const int status = run(arguments, in, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  /// The words of a usage error.
  std::string usage_error(const std::vector<std::string>& arguments) {
    const int status = call(arguments);
    EXPECT_EQ(status, 2) << err_;
    EXPECT_EQ(out_, "");
    EXPECT_FALSE(fs::exists(output_));
    const std::string tail = "; spider-gen --help shows the usage\n";
    const std::string head = "spider-gen: error: ";
    if (!err_.starts_with(head) || !err_.ends_with(tail)) return "not as usual: " + err_;
    return err_.substr(head.size(), err_.size() - head.size() - tail.size());
  }
  std::set<std::string> written() const {
    std::set<std::string> names;
    if (fs::exists(output_)) {
      for (const auto& entry : fs::directory_iterator(output_))
        names.insert(entry.path().filename().string());
    }
    return names;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream stream(fs::path(output_) / name);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  fs::path folder_;
  std::string output_;
  std::string out_;
  std::string err_;
};

TEST_F(CommandLine, WritesTheFilesOfAllSpecs) {
  EXPECT_EQ(call({spec("a.yaml", "a"), spec("b.yaml", "b"), "-o", output_}), 0);
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(written(), (std::set<std::string>{"a.cu", "a.h", "b.cu", "b.h"}));
  EXPECT_EQ(text_of("a.cu"), "source // spider-gen version 1.2.3\na\n");
}

TEST_F(CommandLine, TakesOptionsInEveryForm) {
  const std::string path = spec("a.yaml", "a");
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"-o", output_, path, "-D", "k=1", "-D", "m=-k/2", "--engine", "cuda"},
           {"-o" + output_, "-Dk=1", "-Dm=-k/2", "--engine=cuda", "--", path},
           {"--output=" + output_, "--define", "k=1", path, "--define=m=-k/2", "--engine=cuda"}}) {
    fs::remove_all(output_);
    EXPECT_EQ(call(arguments), 0) << err_;
    EXPECT_EQ(text_of("a.h"), "header // spider-gen version 1.2.3\na\nk=1\nm=-k/2\nengine cuda\n");
  }
}

TEST_F(CommandLine, ReadsStandardInput) {
  EXPECT_EQ(call({"-", "-o", output_}, "a\n"), 0) << err_;
  EXPECT_EQ(written(), (std::set<std::string>{"a.cu", "a.h"}));
  EXPECT_EQ(call({"-", "-o", output_}, "wrong"), 1);
  EXPECT_EQ(err_, "-:1:1: error: no such stencil\n");
}

TEST_F(CommandLine, WritesNothingWhereOneSpecIsWrong) {
  const std::string wrong = spec("b.yaml", "wrong");
  const std::string absent = (folder_ / "absent.yaml").string();
  EXPECT_EQ(call({spec("a.yaml", "a"), wrong, absent, folder_.string(), "-o", output_}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, wrong + ":1:1: error: no such stencil\n" + absent +
                      ": error: cannot be read: No such file or directory\n" + folder_.string() +
                      ": error: cannot be read: Is a directory\n");
  EXPECT_TRUE(written().empty());
}

TEST_F(CommandLine, WarnsAndWrites) {
  const std::string path = spec("a.yaml", "a warn");
  EXPECT_EQ(call({path, "-o", output_}), 0);
  EXPECT_EQ(err_, path + ":2:5: warning: weights are rounded\n");
  EXPECT_EQ(written().size(), 2U);
}

TEST_F(CommandLine, TellsWhatCannotBeWritten) {
  EXPECT_EQ(call({spec("a.yaml", "a"), "-o", spec("file", "") + "/out"}), 1);
  EXPECT_EQ(err_, (folder_ / "file/out").string() + ": error: cannot be created: Not a directory\n");
}

TEST_F(CommandLine, RefusesTwoSpecsOfOneFile) {
  const std::string first = spec("x/a.yaml", "wrong");
  const std::string second = spec("y/a.yaml", "a");
  EXPECT_EQ(usage_error({first, second, "-o", output_}), "two specs would both write " + output_ + "/a.cu");
  EXPECT_EQ(usage_error({first, second, "--list-outputs"}), "two specs would both write ./a.cu");
  EXPECT_EQ(call({second, "-", "-o", output_}, "a"), 2);
  EXPECT_TRUE(written().empty());
}

TEST_F(CommandLine, ChecksAndWritesNothing) {
  const std::string path = spec("a b.yaml", "a");
  const std::string command = "; mend it with: spider-gen '" + path + "' -o " + output_ +
                              " -D k=1 --arch sm_80,sm_90 --engine cuda\n";
  const std::vector<std::string> arguments{path,     "-o",          output_,    "-D",   "k=1",
                                           "--arch", "sm_90,sm_80", "--engine", "cuda", "--check"};
  EXPECT_EQ(call(arguments), 1);
  EXPECT_EQ(err_,
            output_ + "/a.h: error: is missing" + command + output_ + "/a.cu: error: is missing" + command);
  EXPECT_FALSE(fs::exists(output_));

  ASSERT_EQ(call({path, "-o", output_, "-D", "k=1", "--engine", "cuda"}), 0);
  EXPECT_EQ(call(arguments), 0);
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(call({path, "-o", output_, "-D", "k=1", "--check"}), 1);  // of another engine
  EXPECT_EQ(call({path, "-o", output_, "-D", "k=1", "--engine", "cuda", "--tiles=1", "--check"}), 1);
  EXPECT_TRUE(err_.ends_with(" -D k=1 --engine cuda --tiles 1\n")) << err_;

  std::ofstream(fs::path(output_) / "a.h") << "header // spider-gen version 9.9.9\na\nk=1\nengine cuda\n";
  EXPECT_EQ(call(arguments), 0);
  std::ofstream(fs::path(output_) / "a.h") << "header // spider-gen version 9.9.9\na\nk=2\nengine cuda\n";
  EXPECT_EQ(call(arguments), 1);
  EXPECT_EQ(err_, output_ + "/a.h: error: is not up to date" + command);
  EXPECT_EQ(text_of("a.h"), "header // spider-gen version 9.9.9\na\nk=2\nengine cuda\n");
}

TEST_F(CommandLine, ListsOutputsOfSpecsThatAreNotThere) {
  EXPECT_EQ(call({"some/a.yaml", "b.yaml", "--list-outputs", "-o", "out"}), 0);
  EXPECT_EQ(out_, "out/a.cu\nout/a.h\nout/b.cu\nout/b.h\n");
  EXPECT_EQ(call({"a.yaml", "--list-outputs"}), 0);
  EXPECT_EQ(out_, "./a.cu\n./a.h\n");
  EXPECT_EQ(usage_error({"-", "--list-outputs"}),
            "--list-outputs goes by the names of files, and standard input ('-') has none");
}

TEST_F(CommandLine, Explains) {
  const std::string a = spec("a.yaml", "a");
  const std::string b = spec("b.yaml", "b");
  EXPECT_EQ(call({a, "--explain"}), 0) << err_;
  EXPECT_EQ(out_, "plan of a\n");
  EXPECT_EQ(call({a, b, "--explain", "--explain-format", "text"}), 0);
  EXPECT_EQ(out_, "plan of a\n\nplan of b\n");
  EXPECT_EQ(call({a, "--explain", "--arch", "sm_90,sm_80"}), 0);
  EXPECT_EQ(out_, "plan of a for sm_90\n");
  EXPECT_EQ(call({a, "--explain", "--explain-format", "json"}), 0);
  EXPECT_EQ(out_, "{\"stencil\": \"a\"}\n");
  EXPECT_EQ(call({a, b, "--explain", "--explain-format=json"}), 0);
  EXPECT_EQ(out_, "[\n{\"stencil\": \"a\"},\n{\"stencil\": \"b\"}\n]\n");
  EXPECT_FALSE(fs::exists(output_));
  EXPECT_EQ(call({a, "--explain", "-o", output_}), 0);
  EXPECT_EQ(out_, "plan of a\n");
  EXPECT_EQ(written().size(), 2U);
  EXPECT_EQ(call({spec("c.yaml", "wrong"), "--explain"}), 1);
  EXPECT_EQ(out_, "");
}

TEST_F(CommandLine, PrintsVersionAndHelp) {
  EXPECT_EQ(call({"--version"}), 0);
  EXPECT_EQ(out_, "spider-gen version 1.2.3\n");
  EXPECT_EQ(call({"--help"}), 0);
  for (const char* option :
       {"-o", "-D", "--arch", "--engine", "--swap", "--tiles", "--length", "--check", "--list-outputs",
        "--explain", "--explain-format", "--new", "--version", "--help", "Example", "Exit status"}) {
    EXPECT_NE(out_.find(option), std::string::npos) << option;
  }
  EXPECT_EQ(err_, "");
}

TEST_F(CommandLine, RefusesWrongUsage) {
  const std::string a = spec("a.yaml", "a");
  EXPECT_EQ(usage_error({}), "no spec is given");
  EXPECT_EQ(usage_error({"-o", output_}), "no spec is given");
  EXPECT_EQ(usage_error({a}), "the folder for the files is missing: -o DIR");
  EXPECT_EQ(usage_error({a, "--check"}), "the folder for the files is missing: -o DIR");
  EXPECT_EQ(usage_error({a, "-o", output_, "--frobnicate"}), "unrecognised option '--frobnicate'");
  EXPECT_EQ(usage_error({a, "--out", output_}), "unrecognised option '--out' (did you mean '--output'?)");
  EXPECT_EQ(usage_error({a, "-o", output_, "--list"}),
            "unrecognised option '--list' (did you mean '--list-outputs'?)");
  EXPECT_EQ(usage_error({a, "--expl"}), "unrecognised option '--expl' (did you mean '--explain'?)");
  EXPECT_EQ(usage_error({a, "--arhc", "sm_80"}), "unrecognised option '--arhc' (did you mean '--arch'?)");
  EXPECT_EQ(usage_error({a, "--e", "cuda"}), "unrecognised option '--e'");
  EXPECT_EQ(usage_error({"-h"}), "unrecognised option '-h' (did you mean '--help'?)");
  EXPECT_EQ(usage_error({"-v"}), "unrecognised option '-v' (did you mean '--version'?)");
  EXPECT_EQ(usage_error({a, "-j4"}), "unrecognised option '-j4'");
  EXPECT_EQ(usage_error({"", "-o", output_}), "the name of a spec is empty");
  EXPECT_EQ(usage_error({a, "-o", output_, "--arch", "sm_80", "sm_90"}),
            "'sm_90' is no spec; of several architectures '--arch' wants commas between");
  EXPECT_EQ(usage_error({"--new", "my-stencil"}),
            "--new: 'my-stencil' cannot name a stencil; use a letter, then letters, digits and underscores");
  EXPECT_EQ(usage_error({a, "-x"}), "unrecognised option '-x'");
  EXPECT_EQ(usage_error({"--help", "--frobnicate"}), "unrecognised option '--frobnicate'");
  EXPECT_NE(usage_error({a, "-o"}).find("--output"), std::string::npos);
  EXPECT_NE(usage_error({a, "-o", output_, "-o", "x"}).find("--output"), std::string::npos);
  EXPECT_EQ(usage_error({a, "-", "-", "-o", output_}), "standard input ('-') can be read only once");
}

TEST_F(CommandLine, RefusesWrongValues) {
  const std::string a = spec("a.yaml", "a");
  const auto words = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {a, "-o", output_});
    return usage_error(arguments);
  };
  EXPECT_EQ(words({"-D", "k"}), "-D wants name=value without blanks, not 'k'");
  EXPECT_EQ(words({"-D", "k="}), "-D wants name=value without blanks, not 'k='");
  EXPECT_EQ(words({"-D", "=1"}), "-D wants name=value without blanks, not '=1'");
  EXPECT_EQ(words({"-D", "2k=1"}), "-D wants name=value without blanks, not '2k=1'");
  EXPECT_EQ(words({"-D", "k=1", "-D", "k=2"}), "-D k is given twice");
  for (const std::string list : {"sm_70", "sm_75", "sm_95", "h200", "", "sm_80;sm_90", "sm_080", "native"}) {
    const std::string refusal =
        "--arch wants architectures with sparse tensor cores, with commas between, not '" + list +
        "'; known are sm_80, ";
    EXPECT_TRUE(words({"--arch", list}).starts_with(refusal)) << list;
  }
  for (const std::string list : {"90", "sm90", "SM_90", "compute_90", "sm_90f"})
    EXPECT_NE(words({"--arch", list}).find("'" + list + "' (did you mean 'sm_90'?); "), std::string::npos)
        << list;
  EXPECT_NE(words({"--arch", "sm_80,"}).find(" not ''; "), std::string::npos);
  EXPECT_EQ(words({"--engine", "fast"}), "--engine wants sparse, dense or cuda, not 'fast'");
  EXPECT_EQ(words({"--swap", "pairs"}), "--swap wants pair, element or none, not 'pairs'");
  EXPECT_EQ(words({"--tiles", "3"}), "--tiles wants 1 or 2, not '3'");
  EXPECT_EQ(words({"--length", "4"}), "--length wants 8 or 16, not '4'");
  EXPECT_EQ(words({"--explain", "--explain-format", "xml"}),
            "--explain-format wants text or json, not 'xml'");
  EXPECT_EQ(words({"--explain-format", "json"}), "--explain-format is of use only with --explain");
  EXPECT_EQ(words({"--check", "--list-outputs"}), "--check and --list-outputs exclude each other");
  EXPECT_EQ(words({"--check", "--explain"}), "--explain and --check exclude each other");
  EXPECT_EQ(words({"--explain", "--list-outputs"}), "--explain and --list-outputs exclude each other");
}

TEST_F(CommandLine, WritesAStarterSpec) {
  EXPECT_EQ(call({"--new", "heat", "-o", output_}), 0) << err_;
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(written(), std::set<std::string>{"heat.yaml"});
  EXPECT_NE(text_of("heat.yaml").find("\nstencil: heat "), std::string::npos);

  std::ofstream(fs::path(output_) / "heat.yaml") << "mine";
  EXPECT_EQ(call({"--new=heat", "-o", output_}), 1);
  EXPECT_EQ(err_, output_ + "/heat.yaml: error: is there already; remove it or take another name\n");
  EXPECT_EQ(text_of("heat.yaml"), "mine");

  fs::remove_all(output_);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_EQ(call({"--new", "here"}), 0) << err_;
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "here.yaml"));
}

TEST_F(CommandLine, WritesAStarterSpecInOnePiece) {
  fs::create_directories(output_);
  fs::create_symlink("nowhere", fs::path(output_) / "a.yaml");
  EXPECT_EQ(call({"--new", "a", "-o", output_}), 1);
  EXPECT_FALSE(fs::exists(fs::path(output_) / "nowhere"));
  EXPECT_EQ(call({"--new", "a", "-o", spec("file", "") + "/out"}), 1);
  EXPECT_EQ(err_, (folder_ / "file/out").string() + ": error: cannot be created: Not a directory\n");
}

TEST_F(CommandLine, RefusesWrongUseOfNew) {
  EXPECT_EQ(usage_error({"--new", "../a", "-o", output_}),
            "--new: '../a' cannot name a stencil; use a letter, then letters, digits and underscores");
  EXPECT_EQ(usage_error({"--new", "int", "-o", output_}),
            "--new: 'int' has a meaning in C or C++; give the stencil another name");
  EXPECT_EQ(usage_error({"--new=", "-o", output_}).substr(0, 7), "the arg");
  EXPECT_EQ(usage_error({"--new", "a", spec("b.yaml", "b"), "-o", output_}),
            "--new goes with -o DIR and nothing else, not with a spec");
  EXPECT_EQ(usage_error({"--new", "a", "--check", "-o", output_}),
            "--new goes with -o DIR and nothing else, not with --check");
}

TEST_F(CommandLine, ColoursMessagesWhereAsked) {
  const std::string path = spec("a.yaml", "a warn wrong");
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run({path, "-o", output_}, in, out, err, true), 1);
  EXPECT_EQ(err.str(), "\x1b[1m" + path + ":2:5: \x1b[1;35mwarning: \x1b[0mweights are rounded\n\x1b[1m" +
                           path + ":1:1: \x1b[1;31merror: \x1b[0mno such stencil\n");
  EXPECT_EQ(call({path, "-o", output_}), 1);
  EXPECT_EQ(err_.find('\x1b'), std::string::npos);
}

TEST_F(CommandLine, ShowsWhatSteersATerminalAsText) {
  EXPECT_EQ(call({"\x1b[2J.yaml", "-o", output_}), 1);
  EXPECT_EQ(err_, "\\x1b[2J.yaml: error: cannot be read: No such file or directory\n");
  EXPECT_EQ(usage_error({"-D", "\n", "a.yaml", "-o", output_}),
            "-D wants name=value without blanks, not '\\x0a'");
}

TEST_F(CommandLine, TellsItsOwnMistakes) {
  EXPECT_EQ(call({spec("a.yaml", "a"), spec("b.yaml", "broken"), "-o", output_}), 3);
  EXPECT_TRUE(err_.starts_with("spider-gen: internal error: window 3 lost a tap\n")) << err_;
  EXPECT_NE(err_.find("please report"), std::string::npos);
  EXPECT_TRUE(written().empty());
}

TEST_F(CommandLine, FailsWhereStandardOutputFails) {
  std::istringstream in;
  std::ofstream out("/dev/full");
  std::ostringstream err;
  EXPECT_EQ(run({"--version"}, in, out, err), 1);
  EXPECT_EQ(err.str(), "spider-gen: error: standard output cannot be written\n");
}

TEST(Options, TakesArchitecturesWithSparseTensorCoresInTheirOrder) {
  using Names = std::vector<std::string>;
  const auto read = [](const std::string& list) {
    return parse_options({"a.yaml", "-o", "x", "--arch", list}).architectures;
  };
  EXPECT_EQ(parse_options({"a.yaml", "-o", "x"}).architectures, Names{"sm_80"});
  EXPECT_EQ(read("sm_100a,sm_86,sm_90,sm_86"), (Names{"sm_86", "sm_90", "sm_100a"}));
  for (const char* name : {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a",
                           "sm_103a", "sm_110a", "sm_120", "sm_120a", "sm_121a"}) {
    EXPECT_EQ(read(name), Names{name});
  }
}

}  // namespace
}  // namespace spidergen::cli
