//! Changes of a schema. The decisions are pure: a schema and a change give the next version.

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, IndexId, IndexInfo, IndexState};
use crate::packed::ColumnId;
use crate::schema::{Column, ColumnRole, ColumnState, Schema, check_name};
use crate::types::ColumnType;

/// Changes of a table's schema, which take effect together.
///
/// ```
/// use waxseal_table::{Alteration, ColumnType};
///
/// let change = Alteration::new().add_column("genre", ColumnType::Text).rename_column("title", "name");
/// # let _ = change;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Alteration(Vec<Step>);

#[derive(Clone, Debug)]
enum Step {
    Add { group: String, name: String, ty: ColumnType },
    AddRepeatedGroup(String),
    Rename { from: String, to: String },
    Widen { name: String, ty: ColumnType },
    Drop { name: String, deadline: i64 },
    Undelete(String),
    AddIndex(Index),
    PublishIndex(IndexId),
    RebuildIndex(String),
    DropIndex(String),
    DropBuild(IndexId),
    Forget(Vec<ColumnId>),
}

impl Alteration {
    /// Returns no changes.
    pub fn new() -> Alteration {
        Alteration::default()
    }

    /// Adds a column to the group `default`. Rows that exist do not have it. A column of the name that was tentatively
    /// dropped is restored with its values instead. Errors: `Invalid` if that one had another type or group.
    pub fn add_column(self, name: &str, ty: ColumnType) -> Alteration {
        self.add_column_in("default", name, ty)
    }

    /// Adds a column to a group, which is created if it does not exist: see [`add_column`](Alteration::add_column).
    pub fn add_column_in(mut self, group: &str, name: &str, ty: ColumnType) -> Alteration {
        self.0.push(Step::Add { group: group.to_owned(), name: name.to_owned(), ty });
        self
    }

    /// Adds a repeated group without columns.
    pub fn add_repeated_group(mut self, name: &str) -> Alteration {
        self.0.push(Step::AddRepeatedGroup(name.to_owned()));
        self
    }

    /// Renames a column. Key columns can be renamed as well.
    pub fn rename_column(mut self, from: &str, to: &str) -> Alteration {
        self.0.push(Step::Rename { from: from.to_owned(), to: to.to_owned() });
        self
    }

    /// Changes the type of a column to a wider one: see [`ColumnType::widens_to`]. Stored values are converted when
    /// they are read.
    pub fn widen_column(mut self, name: &str, ty: ColumnType) -> Alteration {
        self.0.push(Step::Widen { name: name.to_owned(), ty });
        self
    }

    /// Drops a column until a deadline, in microseconds since 1970: reads hide the column, and `undelete_column`
    /// restores it until then. A second drop ends that time.
    pub(crate) fn drop_column(mut self, name: &str, deadline: i64) -> Alteration {
        self.0.push(Step::Drop { name: name.to_owned(), deadline });
        self
    }

    /// Restores a column that was tentatively dropped.
    pub fn undelete_column(mut self, name: &str) -> Alteration {
        self.0.push(Step::Undelete(name.to_owned()));
        self
    }

    /// Drops an index.
    pub fn drop_index(mut self, name: &str) -> Alteration {
        self.0.push(Step::DropIndex(name.to_owned()));
        self
    }

    /// Adds an index that writes maintain and that cannot be read yet. An equal index whose build was interrupted is
    /// replaced.
    pub(crate) fn add_index(mut self, index: Index) -> Alteration {
        self.0.push(Step::AddIndex(index));
        self
    }

    /// Adds a build of an index. An index that can be read stays beside it until the build is published.
    pub(crate) fn rebuild_index(mut self, name: &str) -> Alteration {
        self.0.push(Step::RebuildIndex(name.to_owned()));
        self
    }

    /// Lets an index be read whose build has ended, in place of the index that it replaces. The id is that of the build:
    /// another build has another id.
    pub(crate) fn publish_index(mut self, id: IndexId) -> Alteration {
        self.0.push(Step::PublishIndex(id));
        self
    }

    /// Drops an index whose build has failed. Changes nothing if another build has begun.
    pub(crate) fn drop_build(mut self, id: IndexId) -> Alteration {
        self.0.push(Step::DropBuild(id));
        self
    }

    /// Forgets columns whose values were all removed.
    pub(crate) fn forget_columns(mut self, ids: Vec<ColumnId>) -> Alteration {
        self.0.push(Step::Forget(ids));
        self
    }

    /// Returns the number of columns that the change may add.
    pub(crate) fn added_columns(&self) -> usize {
        self.0.iter().filter(|step| matches!(step, Step::Add { .. })).count()
    }

    /// Returns the next version of a schema. Errors: `NotFound` and `Exists` for columns; `Invalid` for a change that
    /// is not possible.
    pub(crate) fn apply(&self, schema: &Schema, now_micros: i64) -> Result<Schema> {
        let mut next = schema.clone();
        next.expire(now_micros);
        for step in &self.0 {
            step.apply(&mut next)?;
        }
        next.version += 1;
        next.check()?;
        Ok(next)
    }
}

impl Step {
    fn apply(&self, schema: &mut Schema) -> Result<()> {
        match self {
            Step::Add { group, name, ty } => add(schema, group, name, ty),
            Step::AddRepeatedGroup(name) => match schema.groups.iter().any(|group| group.name == *name) {
                true => Err(Error::of(ErrorKind::Exists, format!("the table has a group {name:?}"))),
                false => {
                    schema.group_or_new(name, true);
                    Ok(())
                }
            },
            Step::Rename { from, to } => {
                check_name("column", to)?;
                refuse_taken(schema, to)?;
                active(schema, from)?.name = to.clone();
                Ok(())
            }
            Step::Widen { name, ty } => {
                let column = active(schema, name)?;
                if column.role.is_key() {
                    return Err(Error::invalid(format!("column {name:?} is of the key, whose types do not change")));
                }
                let id = column.id;
                if let Some(index) = schema.indexes.iter().find(|index| index.columns.iter().any(|(own, _)| *own == id))
                {
                    let index = &index.name;
                    return Err(Error::invalid(format!(
                        "column {name:?} is in the index {index:?}, whose types do not change"
                    )));
                }
                let column = active(schema, name)?;
                if !column.ty.widens_to(ty) {
                    return Err(Error::invalid(format!("column {name:?}: {} does not widen to {ty}", column.ty)));
                }
                column.ty = ty.clone();
                Ok(())
            }
            Step::Drop { name, deadline } => {
                let column = any(schema, name)?;
                if column.role.is_key() {
                    return Err(Error::invalid(format!("column {name:?} is of the key, which stays")));
                }
                column.state = match column.state {
                    ColumnState::Active => ColumnState::Tentative(*deadline),
                    ColumnState::Tentative(_) => ColumnState::Purging,
                    ColumnState::Purging => return Err(purging(name)),
                };
                schema.drop_indexes_of_purging();
                Ok(())
            }
            Step::AddIndex(index) => {
                schema.add_index(index, IndexState::Building);
                let added = schema.indexes.len() - 1;
                let new = schema.indexes[added].clone();
                // An equal index whose build was interrupted is replaced.
                schema.indexes.retain(|own| own.id == new.id || *own != new.with_id(own.id));
                match schema.indexes.iter().filter(|own| own.name == index.name).count() {
                    1 => Ok(()),
                    _ => Err(Error::of(ErrorKind::Exists, format!("the table has an index {:?}", index.name))),
                }
            }
            Step::PublishIndex(id) => {
                let built = schema.indexes.iter().find(|index| index.id == *id).ok_or_else(superseded)?;
                let public = IndexInfo { state: IndexState::Public, ..built.clone() };
                // It takes the place of the index that it was built to replace.
                let place = schema.indexes.iter().position(|index| index.name == public.name).ok_or_else(superseded)?;
                schema.indexes[place] = public.clone();
                schema.indexes.retain(|index| index.name != public.name || *index == public);
                Ok(())
            }
            Step::DropBuild(id) => {
                schema.indexes.retain(|index| index.id != *id);
                Ok(())
            }
            Step::RebuildIndex(name) => {
                let index = schema.indexes.iter().find(|index| index.name == *name).ok_or_else(|| no_index(name))?;
                let id = schema.next_index;
                let build = IndexInfo { id, state: IndexState::Building, ..index.clone() };
                // The index is read until the build is published. An earlier build ends.
                schema.indexes.retain(|index| index.name != *name || index.state == IndexState::Public);
                schema.indexes.push(build);
                schema.next_index = id.saturating_add(1);
                Ok(())
            }
            Step::Forget(ids) => {
                let is_gone = |column: &Column| column.state == ColumnState::Purging && ids.contains(&column.id);
                schema.columns.retain(|column| !is_gone(column));
                Ok(())
            }
            Step::DropIndex(name) => {
                let before = schema.indexes.len();
                schema.indexes.retain(|index| index.name != *name);
                if schema.indexes.len() == before { Err(no_index(name)) } else { Ok(()) }
            }
            Step::Undelete(name) => {
                let column = any(schema, name)?;
                match column.state {
                    ColumnState::Active => Err(Error::invalid(format!("column {name:?} was not dropped"))),
                    ColumnState::Purging => Err(purging(name)),
                    ColumnState::Tentative(_) => {
                        column.state = ColumnState::Active;
                        Ok(())
                    }
                }
            }
        }
    }
}

fn add(schema: &mut Schema, group: &str, name: &str, ty: &ColumnType) -> Result<()> {
    check_name("column", name)?;
    let is_dropped = |column: &Column| column.name == name && matches!(column.state, ColumnState::Tentative(_));
    if let Some(place) = schema.columns.iter().position(is_dropped) {
        let dropped = &schema.columns[place];
        let (stored, stored_group) = (&dropped.ty, schema.group_of(dropped));
        if stored != ty || stored_group != group {
            return Err(Error::invalid(format!(
                "column {name:?} was dropped as {stored} in the group {stored_group:?}, and can be restored as such; \
                 drop it again to remove it"
            )));
        }
        schema.columns[place].state = ColumnState::Active;
        return Ok(());
    }
    refuse_taken(schema, name)?;
    let (id, group) = (schema.next_column, schema.group_or_new(group, false));
    let next = id.checked_add(1).ok_or_else(|| Error::invalid("the table has had too many columns"))?;
    schema.next_column = next;
    let (name, ty, role, state) = (name.to_owned(), ty.clone(), ColumnRole::Value, ColumnState::Active);
    schema.columns.push(Column { id, name, ty, role, group, state });
    Ok(())
}

/// Fails if a column has the name, whatever its state.
fn refuse_taken(schema: &Schema, name: &str) -> Result<()> {
    match schema.columns.iter().find(|column| column.name == name).map(|column| column.state) {
        None => Ok(()),
        Some(ColumnState::Purging) => Err(purging(name)),
        Some(_) => Err(Error::of(ErrorKind::Exists, format!("the table has a column {name:?}"))),
    }
}

fn active<'a>(schema: &'a mut Schema, name: &str) -> Result<&'a mut Column> {
    any(schema, name).and_then(|column| match column.is_active() {
        true => Ok(column),
        false => Err(Error::of(ErrorKind::NotFound, format!("column {name:?} was dropped"))),
    })
}

fn any<'a>(schema: &'a mut Schema, name: &str) -> Result<&'a mut Column> {
    let found = schema.columns.iter_mut().find(|column| column.name == name);
    found.ok_or_else(|| Error::of(ErrorKind::NotFound, format!("the table has no column {name:?}")))
}

#[cold]
pub(crate) fn no_index(name: &str) -> Error {
    Error::of(ErrorKind::NotFound, format!("the table has no index {name:?}"))
}

/// Returns the error of a build whose index was dropped, or is built by another call.
#[cold]
pub(crate) fn superseded() -> Error {
    Error::of(ErrorKind::Conflict, "the index was dropped, or another call has begun to build it")
}

#[cold]
fn purging(name: &str) -> Error {
    Error::invalid(format!("the values of column {name:?} are being removed: use another name until that is done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema::new().partition_key("key", ColumnType::I32).column("a", ColumnType::I32)
    }

    fn state_of(schema: &Schema, name: &str) -> Option<(u32, ColumnState)> {
        schema.columns.iter().find(|column| column.name == name).map(|column| (column.id, column.state))
    }

    #[test]
    fn a_dropped_column_is_restored_until_its_deadline_or_a_second_drop() {
        let dropped = Alteration::new().drop_column("a", 100).apply(&schema(), 0).unwrap();
        assert_eq!(state_of(&dropped, "a"), Some((2, ColumnState::Tentative(100))));
        for restore in [Alteration::new().undelete_column("a"), Alteration::new().add_column("a", ColumnType::I32)] {
            assert_eq!(state_of(&restore.apply(&dropped, 99).unwrap(), "a"), Some((2, ColumnState::Active)));
            assert_eq!(restore.apply(&dropped, 100).unwrap_err().kind(), ErrorKind::Invalid);
            let purging = Alteration::new().drop_column("a", 200).apply(&dropped, 99).unwrap();
            assert_eq!(state_of(&purging, "a"), Some((2, ColumnState::Purging)));
            assert_eq!(restore.apply(&purging, 99).unwrap_err().kind(), ErrorKind::Invalid);
        }
        for (group, ty) in [("default", ColumnType::Text), ("other", ColumnType::I32)] {
            let error = Alteration::new().add_column_in(group, "a", ty).apply(&dropped, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{group}");
            assert!(error.to_string().contains("i32 in the group \"default\""), "{error}");
        }
    }

    #[test]
    fn impossible_changes_are_refused() {
        let new = Alteration::new;
        for (change, kind) in [
            (new().add_column("a", ColumnType::I32), ErrorKind::Exists),
            (new().add_column("", ColumnType::I32), ErrorKind::Invalid),
            (new().add_column("b", ColumnType::I32.list().list()), ErrorKind::Invalid),
            (new().rename_column("b", "c"), ErrorKind::NotFound),
            (new().rename_column("a", "key"), ErrorKind::Exists),
            (new().widen_column("a", ColumnType::Text), ErrorKind::Invalid),
            (new().widen_column("key", ColumnType::I64), ErrorKind::Invalid),
            (new().drop_column("key", 1), ErrorKind::Invalid),
            (new().drop_column("b", 1), ErrorKind::NotFound),
            (new().undelete_column("a"), ErrorKind::Invalid),
            (new().add_repeated_group("default"), ErrorKind::Exists),
        ] {
            assert_eq!(change.apply(&schema(), 0).unwrap_err().kind(), kind, "{change:?}");
        }
    }

    #[test]
    fn an_equal_index_that_is_not_public_is_replaced() {
        let add = |index: Index| Alteration::new().add_index(index);
        let building = add(Index::on("by_a", ["a"])).apply(&schema(), 0).unwrap();
        let again = add(Index::on("by_a", ["a"])).apply(&building, 0).unwrap();
        assert_eq!((building.indexes[0].id, again.indexes.len(), again.indexes[0].id), (1, 1, 2));
        for other in [Index::on("by_a", ["a"]).unique(), Index::on("by_a", ["key"]), Index::on("by_a", ["b"])] {
            assert_eq!(add(other).apply(&building, 0).unwrap_err().kind(), ErrorKind::Exists);
        }
        let public = Alteration::new().publish_index(1).apply(&building, 0).unwrap();
        assert_eq!(add(Index::on("by_a", ["a"])).apply(&public, 0).unwrap_err().kind(), ErrorKind::Exists);
    }

    #[test]
    fn only_the_last_build_of_an_index_is_published() {
        let add = Alteration::new().add_index(Index::on("by_a", ["a"]));
        let first = add.apply(&schema(), 0).unwrap();
        let second = Alteration::new().rebuild_index("by_a").apply(&first, 0).unwrap();
        let (old, new) = (first.indexes[0].id, second.indexes[0].id);
        assert_eq!(Alteration::new().publish_index(old).apply(&second, 0).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(Alteration::new().drop_build(old).apply(&second, 0).unwrap().indexes, second.indexes);
        let public = Alteration::new().publish_index(new).apply(&second, 0).unwrap();
        assert_eq!(public.indexes[0].state, IndexState::Public);
        assert!(Alteration::new().drop_build(new).apply(&second, 0).unwrap().indexes.is_empty());
    }

    #[test]
    fn a_column_id_is_never_used_again() {
        let next = Alteration::new().add_column("b", ColumnType::I32).apply(&schema(), 0).unwrap();
        assert_eq!((state_of(&next, "b"), next.version), (Some((3, ColumnState::Active)), 2));
        let mut purged = next.clone();
        purged.columns.retain(|column| column.name != "b");
        let again = Alteration::new().add_column("b", ColumnType::I32).apply(&purged, 0).unwrap();
        assert_eq!(state_of(&again, "b"), Some((4, ColumnState::Active)));
    }
}
