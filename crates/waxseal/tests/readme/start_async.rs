use waxseal::{AsyncDb, Durability};

#[tokio::main]
async fn main() -> waxseal::Result<()> {
    let db = AsyncDb::open("start.waxseal").await?;
    let users = db.column_family("users").await?;
    users.put("alice", "1815").await?; // as a rule done at once, in this task
    assert_eq!(users.get("alice").await?.unwrap(), "1815"); // so are reads that memory answers

    let mut batch = db.batch();
    batch.put(&users, "bob", "1912").delete(&users, "alice");
    batch.commit(Durability::Sync).await?; // tasks that wait share an fdatasync, and no thread waits for them

    let mut rows = users.range("a"..); // a Stream
    while let Some(row) = rows.next().await {
        let (key, value) = row?;
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close().await
}
