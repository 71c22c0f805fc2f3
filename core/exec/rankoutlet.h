// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/launcher.h"
#include "run/rankchannel.h"

namespace tpscope {

// A rank's side of the channel to whoever started it. Without a launcher messages go nowhere and the page is the
// rank's own memory.
class RankOutlet {
public:
    // Takes over the descriptors of a launcher, if there is one. Errors: BadInput.
    static Result<RankOutlet> open(int rank);

    bool hasLauncher() const { return m_fds.has_value(); }
    int listener() const { return m_fds ? m_fds->listener : -1; }
    RankPage page() const { return m_page; }

    void send(const nlohmann::json &message) const;
    // Waits for the launcher's first message. Errors: BadInput, the launcher is gone.
    Result<nlohmann::json> request();
    // True once the launcher said to stop, or is gone. Never waits.
    bool stopWanted();

private:
    RankOutlet() = default;
    bool readMore(bool wait);

    std::optional<RankChannelFds> m_fds;
    std::optional<RankBoard> m_board;
    std::unique_ptr<RankStatus> m_ownStatus;
    std::vector<Event> m_ownEvents;
    RankPage m_page;
    FrameReader m_reader;
    bool m_stop = false;
};

} // namespace tpscope
