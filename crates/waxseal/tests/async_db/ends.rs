//! The first and the last record, awaited.

use waxseal::AsyncDb;

use crate::support::*;

#[test]
fn the_ends_of_a_family_and_of_a_snapshot() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("users").await.unwrap();
        assert!(cf.is_empty().await.unwrap());
        assert_eq!(cf.first_key_value().await.unwrap(), None);
        cf.put("a", "1").await.unwrap();
        cf.put("b", "2").await.unwrap();
        let snapshot = db.snapshot();
        cf.put("c", "3").await.unwrap();
        cf.delete("a").await.unwrap();
        assert_eq!(cf.first_key_value().await.unwrap().unwrap().1, "2");
        assert_eq!(cf.last_key_value().await.unwrap().unwrap().0, "c");
        assert_eq!(snapshot.first_key_value(&cf).await.unwrap().unwrap().0, "a");
        assert_eq!(snapshot.last_key_value(&cf).await.unwrap().unwrap().1, "2");
        assert!(!cf.is_empty().await.unwrap() && !snapshot.is_empty(&cf).await.unwrap());
        assert_eq!(cf.approximate_len().await.unwrap(), 2);
        assert_eq!(cf.pop_first().await.unwrap().unwrap().0, "b");
        assert_eq!(cf.pop_last().await.unwrap().unwrap().1, "3");
        assert_eq!(cf.pop_first().await.unwrap(), None);
        db.close().await.unwrap();
    });
}
