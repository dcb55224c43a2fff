use headwater::admin::NamespaceConfig;
use headwater::{EventData, ExpectedVersion, Headwater};
use headwater_testing::TestDatabase;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed { total: u32 },
}

#[tokio::test]
async fn an_order_is_placed_once() -> Result<(), Box<dyn std::error::Error>> {
    let database = TestDatabase::create().await;
    let headwater = Headwater::connect(&database.url).await?;
    headwater.create_namespace(NamespaceConfig::new("shop")).await?;
    let shop = headwater.namespace("shop").await?;

    shop.append("order-1", ExpectedVersion::NoStream, [OrderEvent::Placed { total: 120 }]).await?;

    let again = shop.append("order-1", ExpectedVersion::NoStream, [OrderEvent::Placed { total: 120 }]).await;
    assert!(again.is_err());
    Ok(())
}
