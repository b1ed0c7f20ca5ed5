//! `gt-cli keys`: the keys of this user, and whom a server of this user lets in.

use crate::args::{KeysArgs, KeysCommand};
use crate::fault::advised;
use anyhow::Result;
use gt_runtime::doors::{KeyFolder, Member, PublicKey};
use gt_runtime::zmq::Address;
use serde_json::json;

pub(crate) fn keys(args: &KeysArgs, json: bool) -> Result<()> {
    let folder = KeyFolder::of_user()?;
    match args.command.as_ref().unwrap_or(&KeysCommand::List) {
        KeysCommand::List => list(&folder, json),
        KeysCommand::Show => show(&folder, json),
        KeysCommand::Add { roles, key, name } => {
            let member = Member { roles: *roles, key: *key, name: name.join(" ") };
            folder.add(member.clone())?;
            print(json, "added", &member);
            Ok(())
        }
        KeysCommand::Revoke { which } => revoke(&folder, which, json),
        KeysCommand::Trust { address, key } => trust(&folder, address, *key, json),
    }
}

/// Prints the own key, the keys that a server of this user knows, and the servers that it trusts.
fn list(folder: &KeyFolder, json: bool) -> Result<()> {
    let (own, members, servers) = (folder.own()?.public(), folder.members()?, folder.servers()?);
    if json {
        let members = members.iter().map(object).collect::<Vec<_>>();
        let server = |(address, key): &(String, PublicKey)| {
            let print = key.fingerprint();
            json!({ "address": address, "key": key.to_string(), "fingerprint": print })
        };
        let servers = servers.iter().map(server).collect::<Vec<_>>();
        line(&json!({
            "folder": folder.path(), "own": own.to_string(), "fingerprint": own.fingerprint(),
            "authorized": members, "servers": servers,
        }));
        return Ok(());
    }
    text(&format!("{}\n", folder.path().display()));
    row("(this user)", &own, "client,worker,monitor,operator");
    for Member { roles, key, name } in &members {
        row(name, key, &roles.to_string());
    }
    for (address, key) in &servers {
        row(address, key, "trusted server");
    }
    Ok(())
}

fn show(folder: &KeyFolder, json: bool) -> Result<()> {
    let own = folder.own()?.public();
    match json {
        true => line(&json!({ "key": own.to_string(), "fingerprint": own.fingerprint() })),
        false => text(&own.to_string()),
    }
    Ok(())
}

fn revoke(folder: &KeyFolder, which: &str, json: bool) -> Result<()> {
    let gone = folder.revoke(|member| {
        member.name == which || member.key.to_string() == which || member.key.fingerprint() == which
    })?;
    if gone.is_empty() {
        let path = folder.path().join("authorized");
        let message = format!("{} has no key `{which}`", path.display());
        return Err(advised(message, "`gt-cli keys` lists names, fingerprints and keys"));
    }
    gone.iter().for_each(|member| print(json, "revoked", member));
    Ok(())
}

fn trust(folder: &KeyFolder, address: &Address, key: PublicKey, json: bool) -> Result<()> {
    let address = address.canonical();
    folder.trust(&address, key)?;
    match json {
        true => line(&json!({ "event": "trusted", "address": address, "key": key.to_string() })),
        false => text(&format!("trusted {address}: {}", key.fingerprint())),
    }
    Ok(())
}

fn print(json: bool, event: &str, member: &Member) {
    match json {
        true => line(&json!({ "event": event, "key": object(member) })),
        false => text(&format!("{event} {} ({})", member, member.key.fingerprint())),
    }
}

fn object(member: &Member) -> serde_json::Value {
    json!({
        "roles": member.roles.to_string().split(',').collect::<Vec<_>>(),
        "key": member.key.to_string(),
        "fingerprint": member.key.fingerprint(),
        "name": member.name,
    })
}

fn row(name: &str, key: &PublicKey, roles: &str) {
    text(&format!("{:30} {key}  {roles:22} {name}", key.fingerprint()));
}

fn line(value: &serde_json::Value) {
    text(&value.to_string());
}

fn text(text: &str) {
    crate::news::print(text);
}
