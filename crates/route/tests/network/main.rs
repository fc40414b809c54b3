//! Route control in networks of virtual time: what it does over minutes and days.

mod churn;
mod draws;
mod follow;
mod load;
mod net;
