use headwater_derive::SubscriberId;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", nmae = "a")]
struct Unknown;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", name = "")]
struct Empty;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", prefix = "")]
struct EmptyPrefix;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", name = "a\tb")]
struct Control;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", prefix = "a\0")]
struct ControlInPrefix;

#[derive(SubscriberId)]
#[subscriber_id(
    crate = "headwater_core",
    name = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)]
struct Long;

#[derive(SubscriberId)]
#[subscriber_id(
    crate = "headwater_core",
    prefix = "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
)]
struct LongTogether;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core", name = "a", name = "b")]
struct Twice;

#[derive(SubscriberId)]
#[subscriber_id(name)]
struct NoValue;

#[derive(SubscriberId)]
#[subscriber_id(name = 5)]
struct NoText;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core")]
struct __;

#[derive(SubscriberId)]
#[subscriber_id(crate = "headwater_core")]
struct NotShared(std::rc::Rc<()>);

fn main() {}
