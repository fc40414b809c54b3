use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ipnet::IpNet;
use route::Member;

use crate::settings::MemberSettings;

/// The other members: those of the settings, and those that have shown a certificate since. Threads share it; a look at it is a copy of a pointer.
#[derive(Debug, Default)]
pub struct Members(RwLock<Arc<BTreeMap<Member, MemberSettings>>>);

impl Members {
    /// All of them now.
    pub fn get(&self) -> Arc<BTreeMap<Member, MemberSettings>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn one(&self, member: Member) -> Option<MemberSettings> {
        self.get().get(&member).cloned()
    }

    pub(crate) fn contains(&self, member: Member) -> bool {
        self.get().contains_key(&member)
    }

    /// Changes them all at once.
    pub(crate) fn change(&self, how: impl FnOnce(&mut BTreeMap<Member, MemberSettings>)) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        how(Arc::make_mut(&mut all));
    }
}

/// What all of these serve.
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
