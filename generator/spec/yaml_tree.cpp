#include "spec/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "spec/names.h"
#include "spec/source_text.h"
#include "spec/yaml_syntax.h"

namespace spidergen::spec {
namespace {

constexpr std::size_t most_levels = 64;  // yaml-cpp recurses, so depth costs stack
constexpr std::size_t most_entries = 1000;
constexpr std::size_t most_values = 600'000;  // 50000 taps in 3D, each offset with its name

/// Leaves yaml-cpp's parser after an error that has been reported.
struct Stop {};

/// A list or mapping that is being read.
struct Level {
  Node node;
  std::optional<Node> key;  ///< of the mapping entry whose value comes next
  int block_column = -1;    ///< column of a block's keys or dashes, from 0; -1 inside brackets

  [[nodiscard]] bool expects_value() const { return node.kind == NodeKind::sequence || key.has_value(); }
};

/// Columns in characters for places in mostly ascending order, without counting each line again.
class CharacterColumns {
 public:
  /// The column of byte `byte` of line `line`; the byte counts from 0, the column from 1.
  int of(std::size_t line, std::string_view text, int byte) {
    if (line != line_ || byte < byte_) *this = {};
    const int from = std::min(byte_, static_cast<int>(text.size()));
    column_ += character_column(text.substr(static_cast<std::size_t>(from)), byte - byte_ + 1) - 1;
    line_ = line;
    byte_ = byte;
    return column_;
  }

 private:
  std::size_t line_ = 0;
  int byte_ = 0;
  int column_ = 1;
};

/// Builds the tree from yaml-cpp's events: they, unlike its Node, show duplicate keys, tags and anchors.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, std::vector<std::string_view> lines, diag::FileName file,
              diag::Diagnostics& diagnostics)
      : text_(text), lines_(std::move(lines)), file_(std::move(file)), diagnostics_(diagnostics) {}

  [[nodiscard]] std::optional<Node> take_root() { return std::move(root_); }

  /// yaml-cpp counts lines and bytes from 0, people lines and characters from 1.
  [[nodiscard]] diag::SourceLocation place(const YAML::Mark& mark) {
    if (mark.is_null()) return {file_, 0, 0};
    const auto line = static_cast<std::size_t>(mark.line);
    const std::string_view text = line < lines_.size() ? lines_[line] : std::string_view();
    return {file_, mark.line + 1, columns_.of(line, text, mark.column)};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    diagnostics_.error(place(mark), "something follows the end of the spec; a file holds one YAML document");
    throw Stop();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    if (is_empty(mark)) {
      add({NodeKind::missing, place(of_empty_entry(mark)), {}, 0, {}, {}});
    } else {
      add_scalar(mark, {}, std::string(null_word(text_at(mark))));
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    diagnostics_.error(
        place(mark),
        "this is a YAML alias; write the value out or use a parameter, and quote text that begins with '*'");
    add({NodeKind::refused, place(mark), {}, 0, {}, {}});
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    diagnostics_.error(
        place(mark), "{} is a YAML anchor; remove it or use a parameter, and quote text that begins with '&'",
        shown("&" + name));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    add_scalar(mark, tag, value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value style) override {
    open(NodeKind::sequence, mark, tag, style);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value style) override {
    open(NodeKind::mapping, mark, tag, style);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A word that yaml-cpp reads as null, at the beginning of a text; empty where there is none.
  static std::string_view null_word(std::string_view text) {
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (text.starts_with(word)) return word;
    }
    return {};
  }

  /// Is the value missing where yaml-cpp puts the mark? The mark is then that of the next token, which is no
  /// deeper than the block with the gap.
  [[nodiscard]] bool is_empty(const YAML::Mark& mark) const {
    const bool is_next =
        !levels_.empty() && levels_.back().expects_value() && mark.column <= levels_.back().block_column;
    const std::string_view text = text_at(mark);
    return is_next || (null_word(text).empty() && !text.starts_with('!'));
  }

  /// The dash of a block's empty entry, where yaml-cpp marks the next token. Otherwise the mark itself.
  [[nodiscard]] YAML::Mark of_empty_entry(const YAML::Mark& mark) const {
    const int column = levels_.empty() ? -1 : levels_.back().block_column;
    if (column < 0 || levels_.back().node.kind != NodeKind::sequence) return mark;
    const auto dash = static_cast<std::size_t>(column);
    const auto is_dash = [dash](std::string_view line) {
      return line.size() > dash && line[dash] == '-' &&
             line.substr(0, dash).find('#') == std::string_view::npos;
    };
    for (int line = std::min(mark.line, static_cast<int>(lines_.size()) - 1); line >= 0; --line) {
      const bool is_before = line < mark.line || column < mark.column;
      if (!is_before || !is_dash(lines_[static_cast<std::size_t>(line)])) continue;
      YAML::Mark found;
      found.line = line;
      found.column = column;
      return found;
    }
    return mark;
  }

  void add_scalar(const YAML::Mark& mark, const std::string& tag, const std::string& value) {
    const bool has_tag = !check_tag(mark, tag);
    check_quotes(mark);
    const bool is_told = has_tag && value.empty();
    add({is_told ? NodeKind::refused : NodeKind::scalar,
         place(mark),
         value,
         text_column(mark, value),
         {},
         {}});
  }

  /// Reports a tag; true if there is none.
  bool check_tag(const YAML::Mark& mark, const std::string& tag) {
    // The tags that yaml-cpp gives untagged values, plain and quoted. They may also be written: `! 1`, `!<?>
    // 1`.
    const bool is_usual = tag.empty() || tag == "?" || tag == "!";
    if (is_usual && !text_at(mark).starts_with('!')) return true;
    diagnostics_.error(place(mark), "this is a YAML tag; remove it, and quote text that begins with '!'");
    return false;
  }

  /// The spec's text from the mark on.
  [[nodiscard]] std::string_view text_at(const YAML::Mark& mark) const {
    return text_.substr(std::min(static_cast<std::size_t>(mark.pos), text_.size()));
  }

  void check_quotes(const YAML::Mark& mark) {
    const auto begin = static_cast<std::size_t>(mark.pos);
    if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'') || is_closed(text_, begin))
      return;
    diagnostics_.error(place(mark), "these quotes are never closed; close them");
    throw Stop();
  }

  /// The column of the scalar's text: after its quote if there is one.
  [[nodiscard]] int text_column(const YAML::Mark& mark, const std::string& value) {
    const auto line = static_cast<std::size_t>(mark.line);
    if (line >= lines_.size()) return 0;
    auto begin = static_cast<std::size_t>(mark.column);
    const std::string_view text = lines_[line];
    if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) ++begin;
    if (begin > text.size() || text.substr(begin, value.size()) != value) return 0;
    return columns_.of(line, text, static_cast<int>(begin));
  }

  void open(NodeKind kind, const YAML::Mark& mark, const std::string& tag, YAML::EmitterStyle::value style) {
    (void)check_tag(mark, tag);
    if (levels_.size() == most_levels) {
      diagnostics_.error(place(mark), "nested deeper than {} levels; no spec needs that", most_levels);
      throw Stop();
    }
    const int block_column = style == YAML::EmitterStyle::Block ? mark.column : -1;
    levels_.push_back({{kind, place(mark), {}, 0, {}, {}}, std::nullopt, block_column});
  }

  void close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (++values_ > most_values) {
      diagnostics_.error(node.where, "more than {} values; no spec needs that many", most_values);
      throw Stop();
    }
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == NodeKind::sequence) {
      level.node.items.push_back(std::move(node));
    } else if (!level.key) {
      level.key = std::move(node);
    } else {
      add_entry(level.node, std::move(*level.key), std::move(node));
      level.key.reset();
    }
  }

  void add_entry(Node& mapping, Node key, Node value) {
    if (key.kind == NodeKind::refused) return;
    if (key.kind != NodeKind::scalar) {
      diagnostics_.error(key.where, "{} cannot be a key; a key is a name", describe(key));
      return;
    }
    if (key.text == "<<") {
      diagnostics_.error(key.where, "'<<' is a YAML merge key; write the entries out");
      return;
    }
    if (const Entry* earlier = find_entry(mapping, key.text)) {
      diagnostics_.error(key.where, "{} is given twice, first in line {}; keep one", shown(key.text),
                         earlier->where.line);
      return;
    }
    if (mapping.entries.size() == most_entries) {
      diagnostics_.error(key.where, "a mapping of more than {} entries; no spec needs that many",
                         most_entries);
      throw Stop();
    }
    if (value.kind == NodeKind::missing) value.where = key.where;  // yaml-cpp points at the next token
    mapping.entries.push_back({std::move(key.text), std::move(key.where), std::move(value)});
  }

  std::string_view text_;
  std::vector<std::string_view> lines_;
  diag::FileName file_;
  diag::Diagnostics& diagnostics_;
  CharacterColumns columns_;
  std::vector<Level> levels_;
  std::size_t values_ = 0;
  std::optional<Node> root_;
  int documents_ = 0;
};

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

diag::SourceLocation place_in_text(const Node& scalar, std::size_t offset) {
  if (scalar.text_column == 0) return scalar.where;
  const int column = character_column(scalar.text, static_cast<int>(offset) + 1);
  return {scalar.where.file, scalar.where.line, scalar.text_column + column - 1};
}

const Entry* find_entry(const Node& mapping, std::string_view key) {
  const auto found = std::find_if(mapping.entries.begin(), mapping.entries.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  return found == mapping.entries.end() ? nullptr : &*found;
}

std::string describe(const Node& node) {
  constexpr std::size_t longest = 60;
  switch (node.kind) {
    case NodeKind::scalar:
      return node.text.size() <= longest ? fmt::format("'{}'", node.text) : "a long text";
    case NodeKind::sequence:
      return "a list";
    case NodeKind::mapping:
      return "a mapping";
    default:
      return "nothing";
  }
}

std::optional<Node> read_yaml(const std::string& normalised_text, const std::string& file,
                              diag::Diagnostics& diagnostics) {
  TreeBuilder builder(normalised_text, split_lines(normalised_text), file, diagnostics);
  std::istringstream stream(normalised_text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    return std::nullopt;
  } catch (const YAML::Exception& exception) {
    diagnostics.error(builder.place(exception.mark), explain(exception.msg));
    return std::nullopt;
  }
  std::optional<Node> root = builder.take_root();
  if (!root || root->kind == NodeKind::missing) {
    diagnostics.error({file, 1, 1},
                      "the spec is empty; it is a YAML mapping that begins with 'stencil: NAME'");
    return std::nullopt;
  }
  return root;
}

}  // namespace spidergen::spec
