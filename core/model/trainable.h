// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

namespace tpscope {

// --trainable: whether a parameter trains. Each pattern is a shell pattern of parameters or modules, or, without
// wildcards, a text that is looked for anywhere in the name; no pattern: all train. resources/probe/probe_gradients.py
// reads them alike.
bool trains(const std::string &parameter, const std::vector<std::string> &patterns);

} // namespace tpscope
