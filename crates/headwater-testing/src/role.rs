//! A database role for one test.

use headwater_postgres::{Database, DatabaseOptions};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use crate::TestDatabase;

/// A role that can log in to a test's database and has no grants. Roles belong to the server, so
/// the name is unique there. [`TestDatabase::drop_role`] removes the role.
#[derive(Debug, Clone)]
pub struct TestRole {
    /// The role's name.
    pub name: String,
    /// The URL of the test's database for this role.
    pub url: String,
}

impl TestDatabase {
    /// Makes a role. The role that runs the tests must be a superuser or have `CREATEROLE`.
    pub async fn role(&self) -> TestRole {
        let name = format!("role_{}", Uuid::now_v7().simple());
        self.as_owner(format!("CREATE ROLE {name} LOGIN PASSWORD '{name}'")).await;
        let (_, place) = self.url.rsplit_once('@').expect("the url names a user");
        let url = format!("postgres://{name}:{name}@{place}");
        TestRole { name, url }
    }

    /// Runs a statement as the owner.
    async fn as_owner(&self, statement: String) {
        let mut owner = self.session().await;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut owner)
            .await
            .expect("failed to run a statement as the owner");
    }

    /// Drops a role. This fails while the role has grants.
    pub async fn drop_role(&self, role: TestRole) {
        self.as_owner(format!("DROP ROLE {}", role.name)).await;
    }
}

impl TestRole {
    /// Opens a connection as this role.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("failed to connect as the test's role")
    }

    /// Opens the test's database as a program with this role does.
    pub async fn database(&self) -> Database {
        Database::connect(&self.url, DatabaseOptions::default()).await.expect("failed to connect as the test's role")
    }
}
