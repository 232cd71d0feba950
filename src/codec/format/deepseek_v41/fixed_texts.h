// The fixed texts of prompts, as the codec package DeepSeek publishes has them (MIT, Copyright (c)
// 2026 DeepSeek: THIRD_PARTY/deepseek-recipe.txt). A changed byte changes what the model was
// trained to read.

#pragma once

#include <string_view>

namespace sluice::codec::deepseek_v41 {

// Each `｜DSML｜`, `<think>` and `</think>` in it is a control token (spec recipe.md §3.4).
inline constexpr std::string_view kToolsBefore =
    "\n"
    "\n"
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can "
    "invoke tools by writing a \"<｜DSML｜ calls>\" block like the following:\n"
    "\n"
    "<｜DSML｜ calls>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜ parameter name=\"$PARAMETER_NAME\" "
    "string=\"true|false\">$PARAMETER_VALUE</｜DSML｜ parameter>\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "</｜DSML｜ calls>\n"
    "\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all "
    "other types (numbers, booleans, arrays, objects), pass the value in JSON format and "
    "set `string=\"false\"`.\n"
    "\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete "
    "reasoning inside <think>...</think> BEFORE any tool calls or final response.\n"
    "\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n";

inline constexpr std::string_view kToolsAfter =
    "\n"
    "\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to "
    "invoke tool calls.\n";

inline constexpr std::string_view kUpdatedToolsBefore =
    "\n"
    "\n"
    "### Updated Tool Schemas\n"
    "\n";

inline constexpr std::string_view kResponseFormatBefore =
    "\n"
    "\n"
    "## Response Format:\n"
    "\n"
    "You MUST strictly adhere to the following schema to reply:\n";

// The effort stands between them.
inline constexpr std::string_view kEffortBefore = "Reasoning Effort: ";
inline constexpr std::string_view kEffortAfter =
    " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

}  // namespace sluice::codec::deepseek_v41
