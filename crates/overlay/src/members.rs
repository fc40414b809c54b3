use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ipnet::IpNet;
use route::Member;

use crate::settings::MemberSettings;

/// The other members: those of the settings, and those that were admitted by a certificate. Threads share it; reading
/// it copies a pointer.
#[derive(Debug, Default)]
pub struct Members(RwLock<Arc<BTreeMap<Member, MemberSettings>>>);

impl Members {
    /// All members at present.
    pub fn get(&self) -> Arc<BTreeMap<Member, MemberSettings>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Settings of one member.
    pub(crate) fn one(&self, member: Member) -> Option<MemberSettings> {
        self.get().get(&member).cloned()
    }

    pub(crate) fn contains(&self, member: Member) -> bool {
        self.get().contains_key(&member)
    }

    /// Changes the set of members in one step.
    pub(crate) fn change(&self, change: impl FnOnce(&mut BTreeMap<Member, MemberSettings>)) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut all));
    }
}

/// Subnets of all members.
pub(crate) fn subnets(members: &BTreeMap<Member, MemberSettings>) -> Vec<IpNet> {
    members.values().flat_map(|m| m.subnets.clone()).collect()
}

impl From<BTreeMap<Member, MemberSettings>> for Members {
    fn from(all: BTreeMap<Member, MemberSettings>) -> Self {
        Self(RwLock::new(Arc::new(all)))
    }
}

impl Clone for Members {
    fn clone(&self) -> Self {
        Self(RwLock::new(self.get()))
    }
}
