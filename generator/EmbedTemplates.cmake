# cmake -DTEMPLATES=<folder> -DOUTPUT=<file.cpp> -P EmbedTemplates.cmake
# Writes the definition of spidergen::emit::embedded_templates() with the text of every template in the folder.
file(GLOB templates "${TEMPLATES}/*.in")
set(entries "")
foreach(template IN LISTS templates)
  get_filename_component(name "${template}" NAME)
  file(READ "${template}" text)
  # A string literal is limited to 65536 characters by the standard's minimum: one literal per template is well below.
  string(APPEND entries "    {\"${name}\", R\"spider_text(${text})spider_text\"},\n")
endforeach()
list(LENGTH templates count)

file(WRITE "${OUTPUT}" "// Written by EmbedTemplates.cmake.
#include \"emit/templates.h\"

#include <array>

namespace spidergen::emit {
namespace {

constexpr std::array<EmbeddedTemplate, ${count}> templates{{
${entries}}};

}  // namespace

std::span<const EmbeddedTemplate> embedded_templates() { return templates; }

}  // namespace spidergen::emit
")
