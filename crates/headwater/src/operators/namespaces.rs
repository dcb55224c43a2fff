//! One namespace: its settings, roles and months.

use std::time::Duration;

use headwater_core::{AdminError, Horizon, NamespaceInfo, Storage};
use headwater_postgres::{
    Grant, GrantKind, Loss, Maintained, MonthInfo, NamespaceChanges, StorageStep, TransferError, Transferred,
};

use super::Admin;

impl Admin {
    /// Removes a namespace for good, with all its events, subscribers, dead letters and schedules.
    /// While nodes of it are alive, it fails with [`AdminError::NamespaceInUse`], unless `force` is
    /// set.
    pub async fn drop_namespace(&self, name: &str, force: bool) -> Result<(), AdminError> {
        self.headwater.open_anew(name).await;
        self.headwater.database.drop_namespace(name, force).await
    }

    /// Changes settings of a namespace. Processes that have it open see the new settings when they
    /// open it again.
    pub async fn alter_namespace(&self, name: &str, changes: NamespaceChanges) -> Result<NamespaceInfo, AdminError> {
        let info = self.headwater.database.alter_namespace(name, &changes).await?;
        self.headwater.open_anew(name).await;
        Ok(info)
    }

    /// Moves a namespace to tables of its own, or to shared tables, while it is in use. It calls
    /// `on_step` for each step. If transactions block it for longer than `patience`, it fails with
    /// [`AdminError::NamespaceHeld`]: call it again, and it goes on where it stopped.
    pub async fn set_storage(
        &self,
        name: &str,
        storage: Storage,
        patience: Duration,
        on_step: impl FnMut(&StorageStep),
    ) -> Result<NamespaceInfo, AdminError> {
        let info = self.headwater.database.set_storage(name, storage, patience, on_step).await?;
        self.headwater.open_anew(name).await;
        Ok(info)
    }

    /// Renames a namespace. Fails while nodes or leases are alive, unless `force` is set: running
    /// programs know the old name, and fail.
    pub async fn rename_namespace(&self, name: &str, new_name: &str, force: bool) -> Result<NamespaceInfo, AdminError> {
        let info = self.headwater.database.rename_namespace(name, new_name, force).await?;
        self.headwater.open_anew(name).await;
        Ok(info)
    }

    /// Writes a whole namespace as JSON lines, from one snapshot. `write` gets each line without
    /// its line end.
    pub async fn export_namespace(
        &self,
        name: &str,
        write: impl FnMut(&str) -> std::io::Result<()>,
    ) -> Result<Transferred, TransferError> {
        self.headwater.database.export_namespace(name, write).await
    }

    /// Creates a namespace from the lines of an export, under its own name or another. The name
    /// must not exist yet. It creates all of the namespace, or nothing.
    pub async fn import_namespace(
        &self,
        lines: impl IntoIterator<Item = std::io::Result<String>>,
        new_name: Option<&str>,
    ) -> Result<(NamespaceInfo, Transferred), TransferError> {
        self.headwater.database.import_namespace(lines, new_name).await
    }

    /// All namespaces, by name.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceInfo>, AdminError> {
        self.headwater.database.namespaces().await
    }

    /// The settings of a namespace.
    pub async fn namespace_info(&self, name: &str) -> Result<NamespaceInfo, AdminError> {
        self.headwater.database.namespace(name).await
    }

    /// How far a namespace's log is settled, and which transactions may still commit beyond that.
    /// It does not open the namespace.
    pub async fn horizon(&self, name: &str) -> Result<Horizon, AdminError> {
        self.headwater.database.horizon(name).await
    }

    /// The highest sequence of a namespace that can be read now; 0 means that its log is empty.
    /// Higher sequences may have been handed out: to transactions that are open or were rolled
    /// back.
    pub async fn log_end(&self, name: &str) -> Result<u64, AdminError> {
        self.headwater.database.log_end(name).await
    }

    /// Grants a database role access to a namespace: see the guide on roles. Only the owner of
    /// Headwater's tables and superusers can do this.
    pub async fn grant(&self, namespace: &str, role: &str, kind: GrantKind) -> Result<(), AdminError> {
        self.headwater.database.grant(namespace, role, kind).await
    }

    /// Revokes one grant of a role in a namespace, or all of them with `None`. Returns how many the
    /// role had.
    pub async fn revoke(&self, namespace: &str, role: &str, kind: Option<GrantKind>) -> Result<u64, AdminError> {
        self.headwater.database.revoke(namespace, role, kind).await
    }

    /// The grants in a namespace, or in all with `None`. Roles other than the owner see only the
    /// grants of their own roles.
    pub async fn grants(&self, namespace: Option<&str>) -> Result<Vec<Grant>, AdminError> {
        self.headwater.database.grants(namespace).await
    }

    /// The months of a namespace's log, the oldest first.
    pub async fn months(&self, namespace: &str) -> Result<Vec<MonthInfo>, AdminError> {
        self.headwater.database.months(namespace).await
    }

    /// Creates a namespace's coming months, seals past ones, and drops those that are older than it
    /// keeps events. It keeps each month that a subscriber still needs, unless `allow_loss` is set.
    /// Nodes do this once an hour, without loss.
    pub async fn maintain(&self, namespace: &str, allow_loss: bool) -> Result<Maintained, AdminError> {
        self.headwater.database.maintain(namespace, allow_loss).await
    }

    /// Events that retention dropped before a namespace's subscribers, or one of them, had handled
    /// them. The newest come first.
    pub async fn losses(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<Loss>, AdminError> {
        self.headwater.database.losses(namespace, subscriber_id).await
    }

    /// Creates the publication that following a namespace needs, for roles that may replicate but
    /// not create it. Nodes create it themselves if they may.
    pub async fn publish_namespace(&self, name: &str) -> Result<String, AdminError> {
        self.headwater.database.publish_namespace(name).await
    }
}
