#include "options.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

namespace bench {
namespace {

std::vector<std::string> split(const std::string& option, const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    if (item.empty()) throw std::invalid_argument(option + " has an empty item: " + list);
    items.push_back(item);
  }
  if (items.empty()) throw std::invalid_argument(option + " needs at least one item");
  return items;
}

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number low, Number high) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end && number >= low && number <= high) return number;
  std::ostringstream words;
  words << option << " must be a number from " << low << " to " << high << ", not '" << text << "'";
  throw std::invalid_argument(words.str());
}

LabelledLibrary parse_library(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw std::invalid_argument("--library must be LABEL=FILE, not '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void parse_modes(Options& options, const std::string& list) {
  options.burst = false;
  options.sustained = false;
  for (const std::string& mode : split("--mode", list)) {
    if (mode != "burst" && mode != "sustained") {
      throw std::invalid_argument("--mode is burst, sustained or both with a comma, not '" + mode + "'");
    }
    (mode == "burst" ? options.burst : options.sustained) = true;
  }
}

void parse_baselines(Options& options, const std::string& list) {
  options.cudnn = false;
  for (const std::string& baseline : split("--baselines", list)) {
    if (baseline != "copy" && baseline != "cudnn") {
      throw std::invalid_argument("--baselines are copy, which is always there, and cudnn, not '" + baseline +
                                  "'");
    }
    options.cudnn = options.cudnn || baseline == "cudnn";
  }
}

using Setter = std::function<void(Options&, const std::string& option, const std::string& value)>;

const std::map<std::string, Setter>& setters() {
  constexpr std::int32_t most_steps = std::numeric_limits<std::int32_t>::max();
  static const std::map<std::string, Setter> all{
      {"--library", [](Options& o, auto&, auto& value) { o.libraries.push_back(parse_library(value)); }},
      {"--kernels", [](Options& o, auto& name, auto& value) { o.kernels = split(name, value); }},
      {"--sizes",
       [](Options& o, auto& name, auto& value) {
         o.sizes.clear();
         for (const std::string& size : split(name, value)) o.sizes.push_back(parse_size(size));
       }},
      {"--mode", [](Options& o, auto&, auto& value) { parse_modes(o, value); }},
      {"--baselines", [](Options& o, auto&, auto& value) { parse_baselines(o, value); }},
      {"--walks",
       [](Options& o, auto& name, auto& value) {
         for (const std::string& steps : split(name, value)) {
           o.walks.push_back(parse_number<std::int32_t>(name, steps, 0, most_steps));
         }
       }},
      {"--seed",
       [](Options& o, auto& name, auto& value) {
         o.seed = parse_number<std::uint64_t>(name, value, 0, std::numeric_limits<std::uint64_t>::max());
       }},
      {"--offset", [](Options& o, auto& name,
                      auto& value) { o.offset = parse_number<std::int64_t>(name, value, 0, 4096); }},
      {"--launches",
       [](Options& o, auto& name, auto& value) { o.launches = parse_number<int>(name, value, 20, 100000); }},
      {"--seconds",
       [](Options& o, auto& name, auto& value) { o.seconds = parse_number<double>(name, value, 0.1, 3600); }},
      {"--csv", [](Options& o, auto&, auto& value) { o.csv = value; }},
      {"--json", [](Options& o, auto&, auto& value) { o.json = value; }},
  };
  return all;
}

}  // namespace

std::string usage() {
  return R"(usage: spider-bench --library LABEL=FILE... [option...]
Times generated kernels beside a copy of the same bytes, after checking each against double precision.

  --library LABEL=FILE  kernels, as run.sh builds them; may be given several times to compare them
  --kernels NAME,...    which; shell patterns (default: *)
  --sizes SIZE,...      10240 for every axis, 10007x9973 rows x columns, 768x768x768 (default: 10240)
  --mode MODE,...       burst, sustained (default: burst)
  --baselines NAME,...  copy, cudnn (default: copy)
  --walks N,...         tries walks of N steps instead of the kernel's own choice; 0: such that they fill one wave
  --offset N            shifts rows by N elements, so that they do not start on 16 bytes (default: 0)
  --seed N              of the random fields and of the points that are checked (default: 1)
  --launches N          timed launches of a burst, at least 20 (default: 25)
  --seconds S           length of a sustained run (default: 2)
  --csv FILE            appends rows; a new file gets the header
  --json FILE           writes all rows as an array
  --list                prints the kernels of the libraries and ends
  --help                prints this and ends
)";
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "--list") {
      (name == "--help" ? options.help : options.list) = true;
      continue;
    }
    const auto setter = setters().find(name);
    if (setter == setters().end()) throw std::invalid_argument("unknown option '" + name + "'");
    if (++i == arguments.size()) throw std::invalid_argument(name + " needs a value");
    setter->second(options, name, arguments[i]);
  }
  if (options.libraries.empty() && !options.help) {
    throw std::invalid_argument("at least one --library LABEL=FILE is needed");
  }
  return options;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

}  // namespace bench
