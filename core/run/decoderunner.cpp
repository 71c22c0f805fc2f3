// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/decoderunner.h"

namespace tpscope {
namespace {

class LabelledSink : public EventSink {
public:
    LabelledSink(EventSink &inner, std::string label) : m_inner(inner), m_label(std::move(label)) {}
    void progress(const Progress &progress) override {
        Progress labelled = progress;
        labelled.message = m_label + ": " + progress.message;
        m_inner.progress(labelled);
    }
    void events(int rank, const std::vector<Event> &batch) override { m_inner.events(rank, batch); }

private:
    EventSink &m_inner;
    std::string m_label;
};

} // namespace

Result<RunPair> DecodeRunner::runInterleaved(const RunInput &before, const RunInput &after, EventSink &sink,
                                             std::stop_token stop) {
    const int repeats = before.config.repeat;
    if (repeats != after.config.repeat)
        return fail(ErrorCode::Usage, "interleaved runs need the same number of repeats");
    RunPair pair;
    for (int turn = 0; turn < repeats; ++turn)
        for (const bool first : {true, false}) {
            RunInput input = first ? before : after;
            input.config.repeat = 1;
            LabelledSink labelled(sink, std::string(first ? "before " : "after ") + std::to_string(turn + 1) + "/" +
                                            std::to_string(repeats));
            auto trace = run(input, labelled, stop);
            if (!trace)
                return tl::unexpected(trace.error());
            (first ? pair.before : pair.after).push_back(std::move(*trace));
        }
    return pair;
}

} // namespace tpscope
