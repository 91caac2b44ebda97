//! Follows redirects: the request stays in its user's window until the final response, so that its response time, its
//! service time and its timeout are those of the whole chain.

use breme_base::Instant;
use breme_node::{Actions, ConnectionId};

use super::exchange::Reading;
use super::shard::Load;
use crate::redirect::Next;

impl Load {
    /// The user's request has its response, or will have none.
    #[inline]
    pub(super) fn end_redirects(&mut self, index: u32) {
        if let Some(redirects) = &mut self.users[index as usize].redirects {
            redirects.clear();
        }
    }

    /// A response is complete, received at `came`. If it is a redirect that can be followed, sends the request that
    /// follows it. None: it is final.
    ///
    /// `is_open`: the connection can be reused; `ended`: the server has closed it already.
    pub(super) fn follow_redirect(
        &mut self,
        (now, came): (Instant, Instant),
        index: u32,
        connection: ConnectionId,
        (is_open, ended): (bool, bool),
        actions: &mut Actions,
    ) -> Option<Reading> {
        let user = &mut self.users[index as usize];
        let redirects = user.redirects.as_mut()?;
        let slot = *user.window.oldest()?;
        match redirects.next(self.run.plan(), slot.ordinal, user.response.status) {
            Next::Nothing => return None,
            Next::Unfollowed => {
                self.tally.unfollowed += 1;
                return None;
            }
            Next::Follow(host) => user.set_host(host),
        }
        (user.failures, user.ready) = (0, now);
        let is_elsewhere = user.is_elsewhere();
        if let Some(oldest) = user.window.oldest() {
            oldest.accounted = now;
        }
        self.tally.redirected += 1;
        self.account_response(slot, came, now);
        if !is_open || ended {
            self.close_announced(now, index, connection, ended, actions);
            return Some(Reading::Lost);
        }
        if is_elsewhere {
            self.change_host(now, index, connection, actions);
            return Some(Reading::Lost);
        }
        self.send(now, index, 0, connection, actions);
        Some(Reading::Idle)
    }
}
