# SPDX-License-Identifier: Apache-2.0
# For images whose packages Debian's dpkg installs. Maintainer scripts need the path of the
# root file system in the variable D. OE-Core's dpkg is patched to set D; Debian's is not, so
# this class sets D in the environment.
python debian_rootfs_scripts() {
    import os
    for name in ("D", "OFFLINE_ROOT", "IPKG_OFFLINE_ROOT", "OPKG_OFFLINE_ROOT"):
        os.environ[name] = d.getVar("IMAGE_ROOTFS")
    os.environ["NATIVE_ROOT"] = d.getVar("STAGING_DIR_NATIVE")
}
DEB_PREPROCESS_COMMANDS += "debian_rootfs_scripts"

# Delete the SDK tasks: an SDK needs a compiler that BitBake built from source.
python () {
    for task in ("do_populate_sdk", "do_populate_sdk_ext", "do_sdk_depends"):
        bb.build.deltask(task, d)
}
