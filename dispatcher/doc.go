// Package dispatcher puts jobs into the database, in the transaction of the
// caller.
//
// A job is there if and only if that transaction commits: no mail goes out for a
// sign-up that was rolled back, and none is lost when the process dies right
// after the commit.
//
//	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
//		if err := tx.Create(&user).Error; err != nil {
//			return err
//		}
//		_, err := dispatcher.Enqueue(ctx, tx, SendWelcome{UserID: user.ID})
//		return err
//	})
//
// The package links no worker, no cron and no database driver, so a web process
// that only enqueues stays small.
package dispatcher
