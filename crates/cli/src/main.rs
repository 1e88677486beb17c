//! The binary `lockkeeper`: the server, its command line client, and the benchmark.

mod bench;
mod cli;
mod client;
mod commands;
mod diagnosis;
mod duration;
mod encode;
mod failure;
mod import;
mod input;
mod json;
mod lock_failure;
mod lock_run;
mod locks_url;
mod output;
mod problem;
mod remote_locks;
mod report;
mod retry;
mod serve;
mod sse;
mod store_url;
mod target;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = Cli::read();
    let output = Output::new(cli.output);
    match run(cli, &output) {
        Ok(code) => code,
        Err(failure) => failure.report(&output),
    }
}

/// Builds the runtime that the command needs, and runs it. A client waits for one answer at a time: one thread does.
fn run(cli: Cli, output: &Output) -> Result<ExitCode, Failure> {
    let mut builder = match cli.command {
        Command::Serve(_) | Command::Bench(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().map_err(|e| Failure::failed(format!("cannot start a runtime: {e}")))?;
    // When a signal ends a backup, the thread that looks through it need not come to its end.
    let leaves_threads = matches!(cli.command, Command::Backup(_));
    let done = runtime.block_on(dispatch(cli, output));
    if leaves_threads {
        runtime.shutdown_background();
    }
    done
}

async fn dispatch(cli: Cli, output: &Output) -> Result<ExitCode, Failure> {
    let connection = cli.connection;
    let context = || Client::new(&connection).map(|client| Context { client, output });
    match cli.command {
        Command::Serve(args) => return serve::run(args).await,
        Command::Bench(args) => return bench::run(args, output).await,
        Command::Show(args) => commands::show::run(&args, output)?,
        Command::Completion(args) => commands::completion::run(&args, output)?,
        Command::Apply(args) => commands::apply::run(&args, &context()?).await?,
        Command::Start(args) => commands::start::run(&args, &context()?).await?,
        Command::Send(args) => commands::send::run(&args, &context()?).await?,
        Command::Approval(args) => commands::approval::run(&args, &context()?).await?,
        Command::Delegate(args) => commands::act::delegate(&args, &context()?).await?,
        Command::AddApprover(args) => commands::act::add_approver(&args, &context()?).await?,
        Command::Recall(args) => commands::act::recall(&args, &context()?).await?,
        Command::Get(args) => commands::get::run(&args, &context()?).await?,
        Command::List(args) => commands::list::run(&args, &context()?).await?,
        Command::History(args) => commands::history::run(&args, &context()?).await?,
        Command::Watch(args) => commands::watch::run(&args, &context()?).await?,
        Command::Explain(args) => commands::explain::run(&args, &context()?).await?,
        Command::Migrate(args) => commands::migrate::run(&args, &context()?).await?,
        Command::Terminate(args) => {
            commands::close::run(commands::close::Ending::Terminate, &args, &context()?).await?
        }
        Command::Cancel(args) => commands::close::run(commands::close::Ending::Cancel, &args, &context()?).await?,
        Command::Lock(args) => return commands::lock::run(args, context).await,
        Command::Backup(args) => commands::backup::backup(&args, &connection, output).await?,
        Command::Restore(args) => commands::backup::restore(&args, output).await?,
        Command::Purge(args) => commands::purge::run(&args, &context()?).await?,
        Command::Token(args) => commands::token::run(&args, &connection, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}
