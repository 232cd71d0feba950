#include "codec/format/chatml/family.h"

#include <utility>

namespace sluice::codec::chatml {
namespace {

constexpr Words kSmollm2Words = {
    .name = "smollm2",
    .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    .tools_before =
        "You are an expert in composing functions. You are given a question and a set of possible "
        "functions. \n"
        "Based on the question, you will need to make one or more function/tool calls to achieve "
        "the purpose. \n"
        "If none of the functions can be used, point it out and refuse to answer. \n"
        "If the given question lacks the parameters required by the function, also point it out.\n"
        "\n"
        "You have access to the following tools:\n"
        "<tools>",
    .tools_after =
        "</tools>\n"
        "\n"
        "The output MUST strictly adhere to the following format, and NO other text MUST be "
        "included.\n"
        "The example format is as follows. Please make sure the parameter type is correct. If no "
        "function call is needed, please make the tool calls an empty list '[]'.\n"
        "<tool_call>[\n"
        "{\"name\": \"func_name1\", \"arguments\": {\"argument1\": \"value1\", \"argument2\": "
        "\"value2\"}},\n"
        "... (more tool calls as required)\n"
        "]</tool_call>",
    .in_lists = true,
    .temperature = 0.2,
    .top_p = 0.9,
    .top_k = 0,
    .repetition_penalty = 1,
};

constexpr Words kQwen25Words = {
    .name = "qwen2.5",
    .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    .tools_before =
        "\n"
        "\n"
        "# Tools\n"
        "\n"
        "You may call one or more functions to assist with the user query.\n"
        "\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        "<tools>",
    .tools_after =
        "\n"
        "</tools>\n"
        "\n"
        "For each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n"
        "<tool_call>\n"
        "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
        "</tool_call>",
    .in_lists = false,
    .temperature = 0.7,
    .top_p = 0.8,
    .top_k = 20,
    .repetition_penalty = 1.05,
};

}  // namespace

const Words& WordsOf(Family family) {
  return family == Family::kSmollm2 ? kSmollm2Words : kQwen25Words;
}

std::string_view NameOf(Family family) { return WordsOf(family).name; }

}  // namespace sluice::codec::chatml
